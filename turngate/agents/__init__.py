"""Agents: chat rendering, policies, and the rollout that plays them against environments."""
