"""Text of files that nobody vouches for, so that a terminal shows it and does nothing else."""


def visible(text: str, *, lines: bool = False) -> str:
    r"""The text with every character that can't be seen as its escape; the one place where this is decided.

    Shown as escapes is what `repr` shows so: control characters (ESC, BEL, a carriage return), the marks that turn the
    direction of writing (U+202E and its like), separators of lines, halves of surrogate pairs. With `lines` a newline
    stays, in texts that have several lines of their own.

    >>> visible("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or (lines and c == "\n") else repr(c)[1:-1] for c in text)
