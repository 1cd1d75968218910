"""What a file of LightGBM cannot say of a chain, kept as one line of JSON among its parameters."""

PARAMETER = "skboost"


def chain_of(parsed):
    """Return the Chain that the parameters of a parsed model describe, None where they describe none."""
    return None
