//! Python skin over the engine.
