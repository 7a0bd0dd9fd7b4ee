"""Print the coefficients of portable_ffn/_activations/tail.py, computed with mpmath to 60 digits.

The negative tail of the exact GELU is |x| Q(|x|) = exp(-2 s**2) N(s) / D(s) with s = |x| / 2, where the ratio of
polynomials stands for |x| times Mills' ratio over sqrt(2 pi). All coefficients come out positive, so nothing
cancels. exp(-2 s**2) of a rounded s**2 has a relative error of (x**2 / 2) u, so the ratio may lose that too: it is
the best one in the norm |relative error| / (1 + x**2 / 2), found by Remez' exchange (Cody 1969 has the same
for erfc, in several pieces and without the weight, which is what lets one piece of low degree do).

    python ci/gelu_tail.py
"""

from mpmath import cos, erfc, exp, lu_solve, matrix, mp, mpf, nstr, pi, polyval, sqrt

CENTRE = 3  # t = CENTRE (1 + z) / (1 - z) spreads the nodes well over [0, last]
GRID = 3000
# dtype, degrees of the ratio for Mills' ratio, and a t beyond the one from which exp(-t**2 / 2) is zero
FITS = (("float32", 3, 4, 15), ("float64", 8, 9, 39))


def mills(t):
    """Q(t) exp(t**2 / 2)."""
    return erfc(t / sqrt(mpf(2))) / 2 * exp(t * t / 2)


def weight(t):
    """The relative error that is allowed at t, against that at 0."""
    return 1 + t * t / 2


def ratio(p, q, t):
    """The value of p / (q + t**len(q)), coefficients from the constant on."""
    return polyval(p[::-1], t) / polyval([mpf(1), *q[::-1]], t)


def level(nodes, m, n):
    """The ratio whose weighted error is +E, -E, ... at the nodes; E is found by Newton's steps."""
    count = m + n + 2
    q, error = None, mpf(0)
    for _ in range(12):
        rows, right = matrix(count, count), matrix(count, 1)
        for i, t in enumerate(nodes):
            sign = (-1) ** i * weight(t)
            wanted = mills(t) * (1 + sign * error)
            for j in range(m + 1):
                rows[i, j] = t**j
            for j in range(n):
                rows[i, m + 1 + j] = -wanted * t**j
            below = t**n + (polyval(q[::-1], t) if q else 0)
            rows[i, m + 1 + n] = -mills(t) * sign * below
            right[i] = wanted * t**n
        solved = list(lu_solve(rows, right))
        p, q, step = solved[: m + 1], solved[m + 1 : -1], solved[-1]
        error += step
        if abs(step) < abs(error) / 10**6:
            break
    return p, q


def remez(m, n, last):
    """Coefficients of the best ratio on [0, last], and its worst weighted error."""
    count = m + n + 2
    end = mpf(last - CENTRE) / (last + CENTRE)
    spread = [(end - 1) / 2 - (end + 1) / 2 * cos(pi * mpf(i) / GRID) for i in range(GRID + 1)]
    at = [CENTRE * (1 + z) / (1 - z) for z in spread]
    exact = [mills(t) for t in at]
    nodes = [at[round(i * GRID / (count - 1))] for i in range(count)]
    for _ in range(30):
        p, q = level(nodes, m, n)
        error = [(ratio(p, q, t) / value - 1) / weight(t) for t, value in zip(at, exact, strict=True)]
        peaks = []
        for i, e in enumerate(error):
            if not peaks or (e > 0) != (error[peaks[-1]] > 0):
                peaks.append(i)
            elif abs(e) > abs(error[peaks[-1]]):
                peaks[-1] = i
        while len(peaks) > count:
            peaks.pop(0 if abs(error[peaks[0]]) < abs(error[peaks[-1]]) else -1)
        if len(peaks) < count:
            raise ArithmeticError(f"only {len(peaks)} of {count} alternations; change CENTRE")
        nodes = [at[i] for i in peaks]
        sizes = [abs(error[i]) for i in peaks]
        if max(sizes) < min(sizes) * mpf("1.01"):
            break
    return p, q, max(abs(e) for e in error)


if __name__ == "__main__":
    mp.dps = 60
    for dtype, m, n, last in FITS:
        p, q, worst = remez(m, n, last)
        print(f"{dtype}: degrees {m + 1} over {n}, weighted relative error {nstr(worst, 2)}")
        scale = 1 / q[0]
        below = [c * scale * 2**j for j, c in enumerate([*q, mpf(1)])]
        # The numerator has the factor t = 2 s more than Mills' ratio; t**j = 2**j s**j.
        above = [mpf(0)] + [c * scale * 2 ** (j + 1) for j, c in enumerate(p)]
        for name, coefficients in (("N", above), ("D", below)):
            print(f"    {name}")
            for c in coefficients:
                print(f"        {float(c)!r},")
