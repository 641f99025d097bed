"""What a training step checks: canaries, alarms, gradients, and what a learner returns."""
