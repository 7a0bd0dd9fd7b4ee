"""What to say where a framework is not installed."""


def missing(framework: str, extra: str) -> ImportError:
    """The error that names the framework, and the extra that installs it."""
    return ImportError(
        f"portable_ffn.adapters.{extra} needs {framework}, which is not installed; "
        f'install it by pip install "portable-ffn[{extra}]"',
    )
