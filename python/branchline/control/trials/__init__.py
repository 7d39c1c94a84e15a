"""Trials: a wagon that is enabled or changed is tried at once on a sample, in a process that can harm nothing."""
