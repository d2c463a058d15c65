"""`make chaos`: everything that can be killed is killed, while runs go through; then a checker looks.

diary                   the log of what really happened, which no fault touches
settings, urls, web, workflows   the site that is under fire
servers, crew           its PostgreSQL and Redis; its workers, schedulers and web server
load, doors             those who start runs and answer questions
plan, faults            what is done to all of it, from a seed
records, watch          what the database, and Redis, hold of it
evidence, rules_*, checker, summary   what is wrong with that, without a line of the product's code
storm, __main__         one run of all this, and its options
"""
