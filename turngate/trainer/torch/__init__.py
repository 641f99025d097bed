"""The learner that runs on torch in this process."""
