"""What tests of several engines share."""

import dask
import distributed
import pytest

import tests.studies.tiny_studies


@pytest.fixture(scope="module")
def client():
    """Two workers in processes of their own, from the server that has imported everything."""
    tests.studies.tiny_studies.context()
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
