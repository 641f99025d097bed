"""What a run would take on machines that are not here: ``turngate plan``. All of it is modelled."""
