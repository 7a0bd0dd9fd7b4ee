"""The one error of this room: what was asked for can't be done, in one line."""


class Refused(Exception):
    """What can't be done, why, and what to do."""


def one_line(error: BaseException) -> str:
    """What an error says, in one line."""
    if isinstance(error, OSError) and error.strerror and not isinstance(error, FileNotFoundError):
        return error.strerror
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__
