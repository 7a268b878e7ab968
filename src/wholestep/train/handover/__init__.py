"""Handing over: functions and steps as functions of another library's arrays, in this process."""
