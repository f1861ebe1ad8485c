"""Extensions: functions of the user's that see what a session does, and add to it or change it."""
