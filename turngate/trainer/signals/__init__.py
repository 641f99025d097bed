"""What some credit rules read and rewards do not say: columns that a model measures, or that evidence carries.

``base`` says what a signal is and puts all signals of a run together. ``recorded_columns`` needs no model; ``values``
asks a critic, ``beliefs`` the policy, ``log_ratios`` and ``kl_reward`` another model beside it; ``similar`` compares
siblings. ``likelihoods`` measures given texts, and ``settings`` holds the sections of a config.
"""
