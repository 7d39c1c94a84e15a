// Classes whose objects are written into RNTuples.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <RtypesCore.h>

enum Colour { RED = -3, GREEN = 0, BLUE = 70000 };
enum class Small : std::uint8_t { kNo, kYes = 200 };

struct Point {
   float x = 0;
   double y = 0;
   Double32_t z = 0;
   std::int16_t sign[2][3] = {};
};
struct Named {
   std::string name;
   std::vector<std::int32_t> numbers;
};
struct Other {
   std::int64_t id = 0;
   std::string name; // as Named has
};
struct Track : public Point, public Named {
   std::vector<Point> points;
   std::map<std::string, std::vector<float>> tags;
   bool isGood = false;
};
struct Both : public Named, public Other {
   std::uint8_t level = 0;
};
struct Nothing {};
struct Holder {
   Track track;
   std::vector<Track> tracks;
   std::array<Point, 2> corners;
   Nothing nothing;
   Colour colour = RED;
};
