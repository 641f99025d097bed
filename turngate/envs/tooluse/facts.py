"""The evidence of ``turngate/ToolUse-v1``, and further evidence of some worlds."""

from turngate.envs.glossary import meanings

EVIDENCE = {
    **meanings(
        "n_calls",
        "n_solved",
        "distance",
        "answered",
        "calls",
        "gold_calls",
        "malformed",
        "unsolved",
        "gold",
        "items",
        "gold_items",
    ),
    "matched": "whether the call is a gold call that was not made before",
    "right_name": "whether a gold call that is open has the name of the call",
    "right_arguments": "share of argument names that the call and the nearest gold call have in common",
    "right_values": "share of arguments that are equal in the two",
    "wrote": "whether the call changed the state",
    "needless_write": "whether the call changed the state and led no nearer to the right end",
    "policy_violation": "recorded where it happens: the call broke a policy",
    "solved": "whether the task is solved; null: only a judge can say",
    "strictly_solved": "whether it is solved, the frame kept and each gold call made; of tasks without the frame",
    "frame_kept": "whether nothing else was touched; of worlds whose state is known",
    "call_precision": "share of the calls that are gold calls",
    "call_completeness": "share of the gold calls that were made",
    "call_quality": "how well the calls agree with the gold calls, 0 to 1",
}

OF_TALKS = {
    "user_said": "what the user replied in the turn",
    "emotion": "the mood of the user after the turn, as a number",
    "mood": "the mood of the user after the turn, in a word",
    "asked_topics": "what the user was asked about, of the topics that they can speak of; of scripted users",
}
"""Evidence of tool worlds that have a simulated user."""

OF_USER_TURNS = {
    "turn_held": "whether the turn of the user was served, by state and results",
    "turn_state": "whether the state is right after the turn of the user",
    "turn_results": "whether the results of the gold calls were seen in the turn of the user",
    "turn_called": "whether the agent called a tool in the turn of the user",
    "turn_served": "whether a turn of the user that asks for something was served",
    "called_in_vain": "whether a tool was called in a turn of the user that asks for nothing",
    "turns_held": "share of the turns of the user that were served",
}
"""Of worlds whose user leads."""
