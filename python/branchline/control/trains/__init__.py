"""Trains of the control room: compose trains from wagons that passed their trials, start trains and monitor them."""
