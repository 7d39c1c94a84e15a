// Classes of the objects in RNTuples.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ROOT/RVec.hxx>
#include <Rtypes.h>

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
   std::string name; // Named has a member of the same name
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

// Classes for streamer fields. For Streamed, the dictionary requests a streamer field.
struct Base {
   virtual ~Base() = default;
   virtual Base *Copy() const { return new Base(*this); }
   std::int32_t number = 0;
};
struct Derived : public Base {
   Base *Copy() const override { return new Derived(*this); }
   std::vector<float> values;
};
struct Streamed {
   std::int16_t id = 0;
   std::string name;
   std::vector<Track> tracks;
   std::map<std::int32_t, std::string> names;
   Point point;
   Base *base = nullptr;
   Base *again = nullptr; // the same object as `base`, or null

   Streamed() = default;
   Streamed(const Streamed &other)
      : id(other.id), name(other.name), tracks(other.tracks), names(other.names), point(other.point),
        base(other.base ? other.base->Copy() : nullptr), again(other.again ? base : nullptr)
   {
   }
   Streamed &operator=(Streamed other)
   {
      id = other.id, name = other.name, tracks = other.tracks, names = other.names, point = other.point;
      std::swap(base, other.base), std::swap(again, other.again);
      return *this;
   }
   ~Streamed() { delete base; }
};
struct Nested {
   std::int32_t level = 0;
   std::vector<Nested> inside;
};
struct HasStreamed {
   std::uint32_t before = 0;
   Streamed one;
   std::vector<Streamed> many;
};

// A record, and a collection of records that is stored as one array per member.
struct Record {
   float x = 0;
   std::int64_t y = 0;
   ClassDefNV(Record, 2);
};
struct Arrays {
   ROOT::RVec<float> x;
   ROOT::RVec<std::int64_t> y;
   ClassDefNV(Arrays, 2);
};
