from pipeline.seeds import sample_seed


def test_seed_depends_on_every_coordinate() -> None:
    base = (0, "doc", "Calculator", 3, 1)
    others = [
        (1, "doc", "Calculator", 3, 1),
        (0, "doc2", "Calculator", 3, 1),
        (0, "doc", "Calendar", 3, 1),
        (0, "doc", "Calculator", 4, 1),
        (0, "doc", "Calculator", 3, 2),
    ]
    assert len({sample_seed(*args) for args in [base, *others]}) == 6


def test_seed_is_the_same_on_every_machine() -> None:
    assert sample_seed(0, "sha1:ABC", "Calculator", 7, 2) == 10931769151244775812


def test_coordinates_do_not_run_into_each_other() -> None:
    assert sample_seed(0, "a", "b", 1, 11) != sample_seed(0, "a", "b", 11, 1)
