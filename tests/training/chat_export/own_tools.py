"""Tools of one's own, as a configuration names them; none is ever asked."""


class Length:
    """Converts a length
    to another unit.

    Args:
        decimals: after the point.
    """


class Silent:
    pass
