"""ArenaRL's tournament, its worked numbers, and where ours is stricter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.judges.texts import PairVerdict, bracket, single_elimination, zero_group


def verdict(first, second):
    return PairVerdict(first=first, second=second, consistent=True)


def play(n, match, **options):
    """The standings, and all matches in the order in which they were asked for."""
    rounds, asked, results = single_elimination(n, **options), [], None
    while True:
        try:
            matches = rounds.send(results)
        except StopIteration as end:
            return end.value, asked
        asked.append(matches)
        results = [match(*pair) for pair in matches]


def by_strength(strength):
    """Each gets its strength in points, whomever it meets."""
    return lambda i, j: verdict(strength[i], strength[j])


def test_the_bracket_of_eight():
    assert bracket(8) == (0, 7, 3, 4, 1, 6, 2, 5)
    assert bracket(4) == (0, 3, 1, 2)
    assert bracket(1) == (0,)
    assert bracket(6) == (0, 3, 4, 1, 2, 5)


@given(st.integers(1, 40))
@settings(max_examples=40)
def test_a_bracket_holds_everybody_once(n):
    assert sorted(bracket(n)) == list(range(n))


def test_rewards_of_four():
    """r = 1, 2/3, 1/3, 0 and A = ±1.161892, ±0.387297 (ddof 1, ε = 1e-6)."""
    standings, _ = play(4, by_strength([9, 8, 7, 6]))
    assert standings.reward_B == pytest.approx([1, 0.666667, 0.333333, 0], abs=1e-5)
    assert (standings.n_matches, standings.n_missing, standings.problem) == (6, 0, "")


def test_eight_need_fourteen_matches_instead_of_twenty_eight():
    standings, asked = play(8, by_strength([3, 9, 4, 8, 1, 7, 5, 6]))
    assert standings.n_matches == sum(map(len, asked)) == 14
    assert [len(matches) for matches in asked] == [7, 4, 2, 1]
    assert standings.reward_B.argmax() == 1


PUBLISHED = [[8, 6, 15, 8], [16, 12, 2, 10], [8, 11, 12, 11], [12, 18, 7, 1]]
"""Points of i against j."""


@pytest.mark.parametrize("faithful", [False, True])
def test_the_seeding_of_competitor_0_weighs_as_one_match(faithful):
    """Means after the seeding: 29/3, 16, 8, 12, so 1 meets 2 and loses 2 to 11, 3 beats 0, and 2 beats 3.

    Of the two that lost first, 1 has (16 + 2) / 2 = 9 and 0 has (29/3 + 8) / 2 = 8.83. Over its four matches one by one
    0 would have 9.25.
    """
    points = lambda i, j: verdict(PUBLISHED[i][j], PUBLISHED[j][i])  # noqa: E731
    standings, asked = play(4, points, faithful=faithful)
    assert asked == [((0, 1), (0, 2), (0, 3)), ((1, 2), (3, 0)), ((2, 3),)]
    assert standings.reward_B == pytest.approx([0, 1 / 3, 1, 2 / 3])


def test_places_by_hand():
    """Six: seeding against 0, then 0 3 | 4 1 | 2 5 by seed; of three the last passes, and stands first in the final."""
    points = {(0, 1): (4, 16), (0, 2): (6, 14), (0, 3): (8, 12), (0, 4): (9, 11), (0, 5): (12, 8)}
    # means: 0: 39/5 = 7.8, 1: 16, 2: 14, 3: 12, 4: 11, 5: 8, so the seeds are 1 2 3 4 5 0
    points |= {(1, 4): (15, 5), (5, 2): (11, 9), (3, 0): (10, 8)}
    # 1 beats 4; 5 beats 2; 3 beats 0. Next round: 1 against 5, 3 passes; then 3 against 5
    points |= {(1, 5): (8, 12), (3, 5): (13, 7)}
    standings, asked = play(6, lambda i, j: verdict(*points[i, j]))
    assert asked[1:] == [((1, 4), (5, 2), (3, 0)), ((1, 5),), ((3, 5),)]
    # champion 3, then 5, then 1, then the first round's losers by mean: 2 (14 + 9) / 2; 4 (11 + 5) / 2 = 8 and
    # 0 (39/5 + 8) / 2 = 7.9
    assert standings.reward_B == pytest.approx([0.0, 0.6, 0.4, 1.0, 0.2, 0.8])


def test_who_passes_stands_first_in_the_next_round():
    """Five seeds: 0 3 | 4 1 | 2. The third passes and meets the winner of the first pair; then the other one passes."""
    strength = [9, 8, 7, 6, 5]
    standings, asked = play(5, by_strength(strength))
    assert asked[1:] == [((0, 3), (4, 1)), ((2, 0),), ((1, 0),)]
    assert standings.reward_B == pytest.approx([1, 0.75, 0.5, 0.25, 0])


def test_a_tie_is_won_by_the_better_seed_or_by_the_first_shown():
    seeding = {(0, i): (0, 20 - i) for i in range(1, 6)}  # seeds 1 2 3 4 5 0; the bracket lets 5 stand before 2
    match = lambda i, j: verdict(*seeding.get((i, j), (10, 10)))  # noqa: E731
    ours, asked = play(6, match)
    assert asked[1] == ((1, 4), (5, 2), (3, 0))
    published, again = play(6, match, faithful=True)
    assert asked[2] == ((1, 2),)
    assert again[2] == ((1, 5),)
    assert ours.reward_B[2] > ours.reward_B[5]
    assert published.reward_B[5] > published.reward_B[2]


def test_when_nobody_is_ahead_nobody_is_rewarded():
    """The published code sorts the losers of a round, stably and in the order of the matches: 0 meets 3, then 1 2."""
    ours, _ = play(4, lambda i, j: verdict(10, 10))
    assert ours.reward_B.tolist() == [0.5] * 4
    assert ours.problem == "every match is a tie"
    published, _ = play(4, lambda i, j: verdict(10, 10), faithful=True)
    assert published.reward_B == pytest.approx([1, 2 / 3, 0, 1 / 3])


def test_losers_of_one_round_with_equal_points_share_their_ranks():
    """Seeds 0 1 2 3 of 10, 9, 8, 7 points; 3 loses with 7 and 2 with 6, so both have a mean of 7."""
    points = {(0, 1): (10, 9), (0, 2): (10, 8), (0, 3): (10, 7), (1, 2): (9, 6)}
    match = lambda i, j: verdict(*points[i, j])  # noqa: E731
    standings, asked = play(4, match)
    assert asked == [((0, 1), (0, 2), (0, 3)), ((0, 3), (1, 2)), ((0, 1),)]
    assert standings.reward_B == pytest.approx([1, 2 / 3, 1 / 6, 1 / 6])
    assert play(4, match, faithful=True)[0].reward_B == pytest.approx([1, 2 / 3, 0, 1 / 3])


@pytest.mark.parametrize(
    ("strength", "rewards"),
    [
        ([5, 9, 5, 5], [1 / 3, 1, 1 / 3, 1 / 3]),  # one of them goes on by a tie, and has won nothing
        ([5, 5, 1, 5], [2 / 3, 2 / 3, 0, 2 / 3]),  # the last three meet each other in ties
        ([5, 1, 5], [0.75, 0, 0.75]),
        ([1, 5, 1], [0.25, 1, 0.25]),  # the one that passes has won nothing either
        ([9, 1, 5], [1, 0, 0.5]),
    ],
)
def test_equals_share(strength, rewards):
    standings, _ = play(len(strength), by_strength(strength))
    assert standings.reward_B == pytest.approx(rewards)


@given(
    st.lists(st.integers(1, 3), min_size=4, max_size=4)
    | st.lists(st.integers(1, 99), min_size=2, max_size=9, unique=True),
    st.randoms(use_true_random=False),
)
@settings(max_examples=100)
def test_the_order_in_which_competitors_are_given_does_not_matter(strength, random):
    """Four with ties, any number without: whoever is moved takes its reward along, and equals get equal rewards."""
    order = list(range(len(strength)))
    random.shuffle(order)
    here, _ = play(len(strength), by_strength(strength))
    there, _ = play(len(strength), by_strength([strength[index] for index in order]))
    assert there.reward_B == pytest.approx(here.reward_B[order])
    for mine, reward in zip(strength, here.reward_B, strict=True):
        assert [r for other, r in zip(strength, here.reward_B, strict=True) if other == mine] == pytest.approx(
            [reward] * strength.count(mine)
        )
    assert here.reward_B.mean() == pytest.approx(0.5)


def test_a_match_without_verdict_voids_it_and_never_lifts_anybody():
    strength = by_strength([1, 2, 3, 4])
    ours, asked = play(4, lambda i, j: None if (i, j) == (0, 2) else strength(i, j))
    assert np.isnan(ours.reward_B).all()
    assert (len(asked), ours.n_missing, ours.problem) == (1, 1, "1 of 3 matches have no verdict")
    published, _ = play(4, lambda i, j: None if (i, j) == (0, 2) else strength(i, j), faithful=True)
    assert published.n_missing == 1
    assert sorted(published.reward_B) == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_one_has_nobody_to_meet_and_none_is_an_error():
    alone, asked = play(1, None)
    assert (alone.reward_B.tolist(), asked) == ([0.5], [])
    with pytest.raises(ConfigError, match="a tournament of 0"):
        play(0, None)


def test_the_number_of_results_is_checked():
    rounds = single_elimination(3)
    rounds.send(None)
    with pytest.raises(ShapeError, match="1 results for 2 matches"):
        rounds.send([None])


def test_a_group_that_failed_is_paid_nothing():
    standings, _ = play(4, by_strength([9, 8, 7, 6]))
    zero = zero_group(standings)
    assert zero.reward_B.tolist() == [0.0] * 4
    assert zero.n_matches == 6


@given(st.lists(st.integers(1, 9), min_size=2, max_size=12, unique=True).flatmap(st.permutations), st.booleans())
@settings(max_examples=60)
def test_rewards_are_a_permutation_and_the_strongest_wins(strength, faithful):
    n = len(strength)
    standings, asked = play(n, by_strength(strength), faithful=faithful)
    assert sorted(standings.reward_B) == pytest.approx([k / (n - 1) for k in range(n)])
    assert standings.reward_B.argmax() == strength.index(max(strength))
    assert standings.n_matches == sum(map(len, asked)) == 2 * (n - 1)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=12, unique=True).flatmap(st.permutations))
@settings(max_examples=60)
def test_seeding_then_who_loses_is_out(strength):
    """After the first round, in which all meet competitor 0, each match removes its loser."""
    _, (seeding, *rounds) = play(len(strength), by_strength(strength))
    assert seeding == tuple((0, index) for index in range(1, len(strength)))
    out = set()
    for matches in rounds:
        players = [index for match in matches for index in match]
        assert len(players) == len(set(players))
        assert not out & set(players)
        out |= {min(match, key=strength.__getitem__) for match in matches}
    assert len(out) == sum(map(len, rounds)) == len(strength) - 1


@given(st.integers(2, 9), st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=60)
def test_whatever_the_judge_says_it_ends_after_as_many_matches(n, random, faithful):
    standings, _ = play(n, lambda i, j: verdict(random.randint(0, 20), random.randint(0, 20)), faithful=faithful)
    assert standings.n_matches == 2 * (n - 1)
    assert not np.isnan(standings.reward_B).any()
    assert ((standings.reward_B >= 0) & (standings.reward_B <= 1)).all()
