"""The pattern search: valleys, plateaus of infinity, axes that do not matter."""

import math

from prisma_lib.search import search


def test_the_search_finds_a_valley_within_its_budget():
    def error(point):
        return (point[0] - 1.25) ** 2 + 2 * (point[1] + 0.5) ** 2

    found = search(error, 2, 30)

    assert len(found) == 30
    best = min(found, key=found.get)
    assert math.dist(best, (1.25, -0.5)) < 0.15
    assert next(iter(found)) == (0.0, 0.0)
    for tries in (1, 2, 7):
        assert list(search(error, 2, tries)) == list(found)[:tries]


def test_the_search_leaves_a_plateau_of_explosions():
    def error(point):
        return math.inf if point[0] > -2.6 else abs(point[0] + 3)

    found = search(error, 1, 12)

    assert min(found.values()) <= 0.5


def test_an_axis_that_does_not_matter_takes_two_tries():
    def error(point):
        return 1 + (point[0] - 3) ** 2 + 1e-5 * point[1]

    found = search(error, 2, 12)

    assert min(found, key=found.get)[0] == 3
    assert sorted(y for _, y in found if y) == [-1, 1]
    assert len(search(lambda point: 2.0, 2, 12)) == 5  # there is nothing to look for
