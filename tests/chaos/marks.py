"""Two strings that the workflows write, and that the checker knows."""

# In what must not come into Redis or a log: checkpoints, contexts, results, answers.
SECRET = "chaos-secret"
# What an unanswered question is in the diary.
TIMEOUT = "(nobody answered)"
