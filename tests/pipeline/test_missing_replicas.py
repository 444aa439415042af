from pipeline.missing_replicas import lines


def test_only_what_changed_is_told() -> None:
    missing: dict[str, int] = {}
    assert list(lines(missing, {"loss": (2, 2), "sample": (8, 8)})) == []
    assert list(lines(missing, {"loss": (2, 2), "sample": (7, 8)})) == [
        "pool sample: 7 of 8 replicas answer; the others are being started again"
    ]
    assert list(lines(missing, {"loss": (2, 2), "sample": (7, 8)})) == []
    assert list(lines(missing, {"loss": (0, 2), "sample": (8, 8)})) == [
        "pool loss: 0 of 2 replicas answer; the others are being started again",
        "pool sample: all 8 replicas answer again",
    ]
