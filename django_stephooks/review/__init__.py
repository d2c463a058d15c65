"""What every face of the desk shares: how questions, values and stories are shown, and answers taken."""
