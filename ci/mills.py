"""Print the coefficients of portable_ffn/_erf.py, computed with mpmath to 50 digits.

The upper tail of the normal distribution is Q(t) = exp(-t**2 / 2) M(t) with M smooth and slowly falling
(Mills' ratio over sqrt(2 pi)). (t + K) M(t) is interpolated in s = (t - K) / (t + K), which maps [0, oo) onto
[-1, 1) (Shepherd and Laframboise 1981), at Chebyshev nodes of the range of s that a dtype can see.

    python ci/mills.py
"""

from mpmath import cos, erfc, exp, lu_solve, matrix, mp, mpf, nstr, pi, sqrt

K = 4
# dtype, degree, and the t from which exp(-t**2 / 2) is zero in it
FITS = (("float32", 10, mpf("14.5")), ("float64", 22, mpf(39)))


def scaled_tail(s):
    """(t + K) Q(t) exp(t**2 / 2) at t = K (1 + s) / (1 - s)."""
    t = K * (1 + s) / (1 - s)
    return (t + K) * erfc(t / sqrt(mpf(2))) / 2 * exp(t * t / 2)


def interpolate(degree, last):
    """Coefficients in powers of s, and the worst relative error on a grid."""
    end = (last - K) / (last + K)
    count = degree + 1
    nodes = [(end - 1) / 2 + (end + 1) / 2 * cos(pi * (mpf(i) + mpf(1) / 2) / count) for i in range(count)]
    powers = matrix(count, count)
    for i, s in enumerate(nodes):
        for j in range(count):
            powers[i, j] = s**j
    coefficients = lu_solve(powers, matrix([scaled_tail(s) for s in nodes]))
    grid = [-1 + (end + 1) * mpf(i) / 999 for i in range(1000)]
    worst = max(abs(sum(coefficients[j] * s**j for j in range(count)) / scaled_tail(s) - 1) for s in grid)
    return list(coefficients), worst


if __name__ == "__main__":
    mp.dps = 50
    for dtype, degree, last in FITS:
        coefficients, worst = interpolate(degree, last)
        print(f"{dtype}: degree {degree}, relative error {nstr(worst, 2)}")
        for coefficient in coefficients:
            print(f"    {float(coefficient)!r},")
