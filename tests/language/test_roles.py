from ridgeformer.language.roles import ANCHOR, QUERY, SUPPORT, Mask, Rule, Tokens, own, reads


def test_rows_of_roles_follow_each_other():
    tokens = Tokens({SUPPORT: 3, ANCHOR: 3, QUERY: 2})
    assert tokens.total == 8
    assert (tokens.rows(SUPPORT), tokens.rows(ANCHOR), tokens.rows(QUERY)) == (slice(0, 3), slice(3, 6), slice(6, 8))


def test_own_pairs_tokens_of_the_same_number():
    mask = Mask((Rule(SUPPORT, ANCHOR, "own"),)).matrix(Tokens({SUPPORT: 2, ANCHOR: 2}))
    assert mask.int().tolist() == [[0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert own(SUPPORT).own_only
    assert not Mask((Rule(SUPPORT, ANCHOR, "own"),)).own_only
    assert not reads((SUPPORT,), (SUPPORT,)).own_only
