"""The tests; helpers beside them are imported as tests.ROOM.NAME."""
