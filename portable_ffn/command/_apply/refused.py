"""The one error of this room: what was asked for can't be done, in one line."""


class Refused(Exception):
    """What can't be done, why, and what to do."""


def one_line(error: BaseException) -> str:
    """What an error says, in one line; of a list, the first few."""
    if isinstance(error, OSError) and error.strerror and not isinstance(error, FileNotFoundError):
        return error.strerror
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    more = " ..." if len(lines) > 7 else ""
    return " ".join(lines[:1] + [", ".join(lines[1:7])] * (len(lines) > 1)) + more
