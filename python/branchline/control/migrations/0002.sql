-- Bytes that the caches of sites (XCache) served, by the hour in which a file was closed. `element` is the cache's server.
CREATE TABLE cache_hours (
    hour TEXT NOT NULL, element TEXT NOT NULL, site TEXT NOT NULL, files INTEGER NOT NULL, hit_bytes INTEGER NOT NULL,
    miss_bytes INTEGER NOT NULL, bypass_bytes INTEGER NOT NULL, PRIMARY KEY (hour, element)) WITHOUT ROWID;
