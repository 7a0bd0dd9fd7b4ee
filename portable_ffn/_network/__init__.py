"""The mathematics and its fronts; read generic.py first."""
