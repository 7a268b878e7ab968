"""Inspection of steps: explanations, profiles, diagnoses and replays."""
