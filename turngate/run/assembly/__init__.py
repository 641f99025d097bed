"""From settings to objects: models, learners, the policy, credit, auxiliary losses, and the ``Run`` that holds them."""
