"""Credit rules: each turns a ``TurnTable`` into one number per turn. Pure numpy, one function per published method.

The settings of a rule are keyword arguments; the decorator ``rule`` makes a function one that a config names.
``per_token`` has those that give one number per token, a ``TokenCredit``; ``imitation_weights`` those that weigh
imitation; ``control`` negative controls, which are no rules of a config.
"""
