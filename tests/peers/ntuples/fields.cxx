// Random RNTuples with fields of all types, written in random encodings, and read back by ROOT as JSON.

#include "peers.h"

#include <ROOT/RField.hxx>
#include <ROOT/RField/RFieldSoA.hxx>
#include <ROOT/RNTupleAttrWriting.hxx>
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleReader.hxx>
#include <ROOT/RNTupleWriteOptions.hxx>
#include <ROOT/RNTupleWriter.hxx>

#include <TFile.h>
#include <TLorentzVector.h>

#include <array>
#include <atomic>
#include <bitset>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace peers {

using Random = std::mt19937_64;

template <typename T, typename = void> struct IsMap : std::false_type {};
template <typename T> struct IsMap<T, std::void_t<typename T::mapped_type>> : std::true_type {};
template <typename T> struct IsVector : std::false_type {};
template <typename T> struct IsVector<std::vector<T>> : std::true_type {};

inline std::size_t Below(Random &rng, std::size_t n) { return rng() % n; }

// Values ---------------------------------------------------------------------------------------------------------

template <typename T> void Fill(Random &rng, T &value);

inline void FillOne(Random &rng, bool &v) { v = rng() & 1; }
inline void FillOne(Random &rng, std::string &v)
{
   v.assign(Below(rng, 4) ? Below(rng, 12) : 300, 'a');
   for (auto &c : v) c = char('a' + Below(rng, 26));
}
template <typename T> std::enable_if_t<std::is_integral_v<T>> FillOne(Random &rng, T &v) { v = T(rng() >> Below(rng, 64)); }
template <typename T> std::enable_if_t<std::is_floating_point_v<T>> FillOne(Random &rng, T &v)
{
   v = T(std::uniform_real_distribution<double>(-5, 5)(rng));
}
inline void FillOne(Random &rng, Colour &v) { v = std::array<Colour, 3>{RED, GREEN, BLUE}[Below(rng, 3)]; }
inline void FillOne(Random &rng, Small &v) { v = Below(rng, 2) ? Small::kYes : Small::kNo; }
inline void FillOne(Random &, Nothing &) {}
inline void FillOne(Random &rng, Point &v)
{
   Fill(rng, v.x), Fill(rng, v.y), v.z = float(Below(rng, 1000)) / 8;
   for (auto &row : v.sign) for (auto &one : row) Fill(rng, one);
}
inline void FillOne(Random &rng, Named &v) { Fill(rng, v.name), Fill(rng, v.numbers); }
inline void FillOne(Random &rng, Other &v) { Fill(rng, v.id), Fill(rng, v.name); }
inline void FillOne(Random &rng, Track &v)
{
   FillOne(rng, static_cast<Point &>(v)), FillOne(rng, static_cast<Named &>(v));
   Fill(rng, v.points), Fill(rng, v.tags), Fill(rng, v.isGood);
}
inline void FillOne(Random &rng, Both &v)
{
   FillOne(rng, static_cast<Named &>(v)), FillOne(rng, static_cast<Other &>(v)), Fill(rng, v.level);
}
inline void FillOne(Random &rng, Holder &v)
{
   Fill(rng, v.track), Fill(rng, v.tracks), Fill(rng, v.corners), Fill(rng, v.colour);
}
inline void FillOne(Random &rng, Streamed &v)
{
   Fill(rng, v.id), Fill(rng, v.name), Fill(rng, v.tracks), Fill(rng, v.names), Fill(rng, v.point);
   delete v.base;
   v.base = v.again = nullptr;
   if (Below(rng, 3) == 0) return;
   if (Below(rng, 2)) {
      auto derived = new Derived;
      Fill(rng, derived->values), v.base = derived;
   } else {
      v.base = new Base;
   }
   Fill(rng, v.base->number), v.again = Below(rng, 2) ? v.base : nullptr;
}
inline void FillOne(Random &rng, HasStreamed &v) { Fill(rng, v.before), Fill(rng, v.one), Fill(rng, v.many); }
inline void FillOne(Random &rng, Nested &v)
{
   Fill(rng, v.level), v.inside.clear();
   while (Below(rng, 5) < 2) Fill(rng, v.inside.emplace_back());
}
inline void FillOne(Random &rng, Record &v) { Fill(rng, v.x), Fill(rng, v.y); }
inline void FillOne(Random &rng, Arrays &v)
{
   auto count = Below(rng, 4);
   v.x.resize(count), v.y.resize(count);
   for (auto &one : v.x) Fill(rng, one);
   for (auto &one : v.y) Fill(rng, one);
}
inline void FillOne(Random &rng, TLorentzVector &v)
{
   double x, y, z, t;
   Fill(rng, x), Fill(rng, y), Fill(rng, z), Fill(rng, t), v.SetPxPyPzE(x, y, z, t);
}
template <typename T, std::size_t N> void FillOne(Random &rng, std::array<T, N> &v) { for (auto &one : v) Fill(rng, one); }
template <std::size_t N> void FillOne(Random &rng, std::bitset<N> &v) { for (std::size_t i = 0; i < N; ++i) v[i] = rng() & 1; }
template <typename A, typename B> void FillOne(Random &rng, std::pair<A, B> &v) { Fill(rng, v.first), Fill(rng, v.second); }
template <typename... T> void FillOne(Random &rng, std::tuple<T...> &v) { std::apply([&](auto &...one) { (Fill(rng, one), ...); }, v); }
template <typename T> void FillOne(Random &rng, std::optional<T> &v) { v.reset(); if (rng() & 1) Fill(rng, v.emplace()); }
template <typename T> void FillOne(Random &rng, std::unique_ptr<T> &v) { v.reset(); if (rng() & 1) Fill(rng, *(v = std::make_unique<T>())); }
template <typename T> void FillOne(Random &rng, std::atomic<T> &v) { T one; Fill(rng, one); v = one; }
template <typename T, typename V> void Put(Random &rng, V &v)
{
   T one{};
   Fill(rng, one), v = std::move(one);
}
template <typename... T> void FillOne(Random &rng, std::variant<T...> &v)
{
   std::size_t which = Below(rng, sizeof...(T)), index = 0;
   ((index++ == which ? Put<T>(rng, v) : void()), ...);
}
template <typename C, typename T = typename C::value_type> void FillMany(Random &rng, C &v, std::size_t count)
{
   v.clear();
   for (std::size_t i = 0; i < count; ++i) {
      if constexpr (IsMap<C>::value) {
         std::pair<typename C::key_type, typename C::mapped_type> one;
         Fill(rng, one.first), Fill(rng, one.second), v.insert(std::move(one));
      } else {
         T one{};
         Fill(rng, one), v.insert(v.end(), std::move(one));
      }
   }
}
template <typename C> std::enable_if_t<!std::is_same_v<C, std::string>, std::void_t<typename C::value_type, decltype(std::declval<C>().clear())>>
FillOne(Random &rng, C &v) { FillMany(rng, v, Below(rng, 5) ? Below(rng, 4) : Below(rng, 12)); }
template <typename T> void Fill(Random &rng, T &value) { FillOne(rng, value); }

// JSON -----------------------------------------------------------------------------------------------------------

template <typename T> void Json(std::ostream &out, const T &value);

template <typename V, typename... T> void Members(std::ostream &out, bool first, const char *name, const V &value, const T &...rest)
{
   out << (first ? "" : ",") << '"' << name << "\":", Json(out, value);
   if constexpr (sizeof...(rest) > 0) Members(out, false, rest...);
}
inline void JsonOne(std::ostream &out, bool v) { out << (v ? "true" : "false"); }
inline void JsonOne(std::ostream &out, char v) { out << int(static_cast<unsigned char>(v)); }
inline void JsonOne(std::ostream &out, const std::string &v) { out << '"' << v << '"'; }
template <typename T> std::enable_if_t<std::is_integral_v<T>> JsonOne(std::ostream &out, T v) { out << +v; }
template <typename T> std::enable_if_t<std::is_enum_v<T>> JsonOne(std::ostream &out, T v) { out << +std::underlying_type_t<T>(v); }
template <typename T> std::enable_if_t<std::is_floating_point_v<T>> JsonOne(std::ostream &out, T v)
{
   char text[40];
   std::snprintf(text, sizeof text, "%.17g", double(v)), out << text;
}
template <typename C> void JsonList(std::ostream &out, const C &v)
{
   const char *comma = "";
   out << '[';
   for (const auto &one : v) out << comma, Json(out, static_cast<const typename C::value_type &>(one)), comma = ",";
   out << ']';
}
inline void PointMembers(std::ostream &out, const Point &v)
{
   std::array<std::array<std::int16_t, 3>, 2> sign;
   for (int i = 0; i < 6; ++i) sign[i / 3][i % 3] = v.sign[i / 3][i % 3];
   Members(out, true, "x", v.x, "y", v.y, "z", v.z, "sign", sign);
}
inline void JsonOne(std::ostream &out, const Nothing &) { out << "[]"; }
inline void JsonOne(std::ostream &out, const Point &v) { out << '{', PointMembers(out, v), out << '}'; }
inline void JsonOne(std::ostream &out, const Track &v)
{
   out << '{', PointMembers(out, v);
   Members(out, false, "name", v.name, "numbers", v.numbers, "points", v.points, "tags", v.tags, "isGood", v.isGood);
   out << '}';
}
inline void JsonOne(std::ostream &out, const Both &v)
{
   out << '{';
   Members(out, true, "Named::name", v.Named::name, "numbers", v.numbers, "id", v.id, "Other::name", v.Other::name, "level", v.level);
   out << '}';
}
inline void JsonOne(std::ostream &out, const Holder &v)
{
   out << '{';
   Members(out, true, "track", v.track, "tracks", v.tracks, "corners", v.corners, "nothing", v.nothing, "colour", v.colour);
   out << '}';
}
inline void JsonOne(std::ostream &out, const Base *v)
{
   if (!v) out << "null";
   else if (auto derived = dynamic_cast<const Derived *>(v)) {
      out << '{', Members(out, true, "number", v->number, "values", derived->values), out << '}';
   } else {
      out << '{', Members(out, true, "number", v->number), out << '}';
   }
}
inline void JsonOne(std::ostream &out, const Streamed &v)
{
   out << '{';
   Members(out, true, "id", v.id, "name", v.name, "tracks", v.tracks, "names", v.names, "point", v.point);
   out << ",\"base\":", JsonOne(out, v.base), out << ",\"again\":", JsonOne(out, v.again), out << '}';
}
inline void JsonOne(std::ostream &out, const HasStreamed &v)
{
   out << '{', Members(out, true, "before", v.before, "one", v.one, "many", v.many), out << '}';
}
inline void JsonOne(std::ostream &out, const Nested &v)
{
   out << '{', Members(out, true, "level", v.level, "inside", v.inside), out << '}';
}
inline void JsonOne(std::ostream &out, const Record &v) { out << '{', Members(out, true, "x", v.x, "y", v.y), out << '}'; }
inline void JsonOne(std::ostream &out, const Arrays &v)
{
   out << '[';
   for (std::size_t i = 0; i < v.x.size(); ++i) out << (i ? "," : ""), JsonOne(out, Record{v.x[i], v.y[i]});
   out << ']';
}
inline void JsonOne(std::ostream &out, const TLorentzVector &v)
{
   out << "{\"fP\":{", Members(out, true, "fX", v.X(), "fY", v.Y(), "fZ", v.Z()), out << "},\"fE\":", Json(out, v.E()), out << '}';
}
template <std::size_t N> void JsonOne(std::ostream &out, const std::bitset<N> &v)
{
   std::array<bool, N> all;
   for (std::size_t i = 0; i < N; ++i) all[i] = v[i];
   JsonList(out, all);
}
template <typename A, typename B> void JsonOne(std::ostream &out, const std::pair<A, B> &v)
{
   out << '[', Json(out, v.first), out << ',', Json(out, v.second), out << ']';
}
template <typename... T> void JsonOne(std::ostream &out, const std::tuple<T...> &v)
{
   const char *comma = "";
   out << '[', std::apply([&](const auto &...one) { ((out << comma, Json(out, one), comma = ","), ...); }, v), out << ']';
}
template <typename T> void JsonOne(std::ostream &out, const std::optional<T> &v) { if (v) Json(out, *v); else out << "null"; }
template <typename T> void JsonOne(std::ostream &out, const std::unique_ptr<T> &v) { if (v) Json(out, *v); else out << "null"; }
template <typename T> void JsonOne(std::ostream &out, const std::atomic<T> &v) { Json(out, v.load()); }
template <typename... T> void JsonOne(std::ostream &out, const std::variant<T...> &v)
{
   // libstdc++ assumes that variants of such types always have a value, but ROOT creates variants without a value.
   if (v.index() >= sizeof...(T)) out << "null";
   else std::visit([&](const auto &one) { Json(out, one); }, v);
}
template <typename C> std::enable_if_t<!std::is_same_v<C, std::string>, std::void_t<typename C::value_type, decltype(std::declval<C>().begin())>>
JsonOne(std::ostream &out, const C &v) { JsonList(out, v); }
template <typename T> void Json(std::ostream &out, const T &value) { JsonOne(out, value); }

// Fields ---------------------------------------------------------------------------------------------------------

using Kind = ROOT::ENTupleColumnType;
using Representation = std::vector<Kind>;

inline std::vector<Representation> Indexes()
{
   return {{Kind::kIndex32}, {Kind::kIndex64}, {Kind::kSplitIndex32}, {Kind::kSplitIndex64}};
}

template <typename T> std::vector<Representation> Representations()
{
   if constexpr (std::is_same_v<T, std::int16_t>) return {{Kind::kInt16}, {Kind::kSplitInt16}};
   else if constexpr (std::is_same_v<T, std::uint16_t>) return {{Kind::kUInt16}, {Kind::kSplitUInt16}};
   else if constexpr (std::is_same_v<T, std::int32_t>) return {{Kind::kInt32}, {Kind::kSplitInt32}};
   else if constexpr (std::is_same_v<T, std::uint32_t>) return {{Kind::kUInt32}, {Kind::kSplitUInt32}};
   else if constexpr (std::is_same_v<T, std::int64_t>) return {{Kind::kInt64}, {Kind::kSplitInt64}};
   else if constexpr (std::is_same_v<T, std::uint64_t>) return {{Kind::kUInt64}, {Kind::kSplitUInt64}};
   else if constexpr (std::is_same_v<T, float>) return {{Kind::kReal32}, {Kind::kSplitReal32}};
   else if constexpr (std::is_same_v<T, double>) return {{Kind::kReal64}, {Kind::kSplitReal64}, {Kind::kReal32}, {Kind::kSplitReal32}};
   else if constexpr (std::is_same_v<T, std::string>) {
      std::vector<Representation> all;
      for (auto one : Indexes()) all.push_back({one[0], Kind::kChar});
      return all;
   } else if constexpr (IsVector<T>::value) return Indexes();
   else return {};
}

// The name of a float field selects its encoding: half, truncated or quantized.
template <typename T> void Encode(Random &rng, ROOT::RField<T> &field, const std::string &name)
{
   if constexpr (std::is_floating_point_v<T>) {
      if (name.rfind("half", 0) == 0) return field.SetHalfPrecision();
      if (name.rfind("truncated", 0) == 0) return field.SetTruncated(10 + Below(rng, 22));
      if (name.rfind("quantized", 0) == 0) return field.SetQuantized(1 + Below(rng, 32), {T(-5), T(5)});
   }
   auto all = Representations<T>();
   if (!all.empty() && Below(rng, 2)) field.SetColumnRepresentatives({all[Below(rng, all.size())]});
}

struct Field {
   std::string name;
   std::function<void(ROOT::RNTupleModel &, Random &, bool)> add;
   std::function<std::function<void(Random &)>(ROOT::REntry &)> bind;
   std::function<std::function<void(Random &)>(ROOT::RNTupleWriter &)> extend;
   std::function<std::string(const std::string &, const std::string &)> json;
};
using Make = std::function<std::unique_ptr<ROOT::RFieldBase>(const std::string &)>;

template <typename V> std::string AllJson(ROOT::RNTupleReader &reader, const V &value)
{
   std::ostringstream out;
   out << '[';
   for (auto entry : reader) out << (entry ? "," : ""), Json(out, value(entry));
   out << ']';
   return out.str();
}

template <typename T> Field Of(const std::string &name)
{
   return {name,
           [name](ROOT::RNTupleModel &model, Random &rng, bool randomly) {
              auto field = std::make_unique<ROOT::RField<T>>(name);
              if (randomly) Encode<T>(rng, *field, name);
              model.AddField(std::move(field));
           },
           [name](ROOT::REntry &entry) -> std::function<void(Random &)> {
              auto value = entry.GetPtr<T>(name);
              return [value](Random &rng) { Fill(rng, *value); };
           },
           [name](ROOT::RNTupleWriter &writer) -> std::function<void(Random &)> {
              auto updater = writer.CreateModelUpdater();
              updater->BeginUpdate();
              auto value = updater->MakeField<T>("late_" + name);
              updater->CommitUpdate();
              return [value](Random &rng) { Fill(rng, *value); };
           },
           [](const std::string &path, const std::string &full) {
              auto reader = ROOT::RNTupleReader::Open("ntuple", path);
              auto view = reader->GetView<T>(full);
              return AllJson(*reader, [&](auto entry) -> const T & { return view(entry); });
           }};
}

// A field whose field class does not follow from its type.
template <typename T> Field Made(const std::string &name, const Make &make)
{
   auto field = Of<int>(name);
   field.add = [=](ROOT::RNTupleModel &model, Random &, bool) { model.AddField(make(name)); };
   field.bind = [=](ROOT::REntry &entry) -> std::function<void(Random &)> {
      auto value = std::static_pointer_cast<T>(entry.GetPtr<void>(name));
      return [value](Random &rng) { Fill(rng, *value); };
   };
   field.json = [=](const std::string &path, const std::string &full) {
      auto model = ROOT::RNTupleModel::Create();
      model->AddField(make(full));
      auto reader = ROOT::RNTupleReader::Open(std::move(model), "ntuple", path);
      std::unique_ptr<ROOT::REntry> values;
      // Create new objects for each entry, because reusing an entry would delete objects behind pointers twice.
      return AllJson(*reader, [&](auto entry) -> const T & {
         values = reader->GetModel().CreateEntry();
         reader->LoadEntry(entry, *values);
         return *std::static_pointer_cast<T>(values->template GetPtr<void>(full));
      });
   };
   return field;
}
inline Make Typed(const std::string &type)
{
   return [type](const std::string &name) { return ROOT::RFieldBase::Create(name, type).Unwrap(); };
}
inline Make ByStreamer(const std::string &type)
{
   return [type](const std::string &name) { return std::make_unique<ROOT::RStreamerField>(name, type); };
}

inline std::unique_ptr<ROOT::RFieldBase> Untyped(const std::string &name)
{
   std::vector<std::unique_ptr<ROOT::RFieldBase>> members;
   members.push_back(std::make_unique<ROOT::RField<float>>("x"));
   members.push_back(std::make_unique<ROOT::RField<std::int64_t>>("y"));
   return std::make_unique<ROOT::RRecordField>(name, std::move(members));
}
inline std::unique_ptr<ROOT::RFieldBase> UntypedMany(const std::string &name)
{
   return ROOT::RVectorField::CreateUntyped(name, Untyped("_0"));
}
// ROOT can only read such arrays as records.
inline Field WithArrays(const std::string &name)
{
   auto field = Made<Arrays>(name, [](const std::string &full) { return std::make_unique<ROOT::Experimental::RSoAField>(full, "Arrays"); });
   field.json = Made<std::vector<Record>>(name, Typed("std::vector<Record>")).json;
   return field;
}

inline const std::vector<Field> &Fields()
{
   static const std::vector<Field> all = {
      Of<bool>("bool"), Of<char>("char"), Of<std::int8_t>("int8"), Of<std::uint8_t>("uint8"), Of<std::int16_t>("int16"),
      Of<std::uint16_t>("uint16"), Of<std::int32_t>("int32"), Of<std::uint32_t>("uint32"), Of<std::int64_t>("int64"),
      Of<std::uint64_t>("uint64"), Of<float>("float"), Of<double>("double"), Of<float>("half_float"),
      Of<double>("half_double"), Of<float>("truncated_float"), Of<double>("truncated_double"), Of<float>("quantized_float"),
      Of<double>("quantized_double"), Of<std::string>("string"), Of<std::vector<float>>("vector_float"),
      Of<std::vector<bool>>("vector_bool"), Of<std::vector<std::string>>("vector_string"),
      Of<std::vector<std::vector<std::int32_t>>>("vector_vector"), Of<std::vector<std::vector<std::string>>>("vector_vector_string"),
      Of<std::array<double, 3>>("array"), Of<std::array<std::array<std::int16_t, 2>, 3>>("array_array"),
      Of<std::array<std::string, 2>>("array_string"), Of<std::vector<std::array<float, 2>>>("vector_array"),
      Of<std::array<std::vector<float>, 2>>("array_vector"), Of<std::bitset<9>>("bitset"), Of<std::bitset<130>>("bitset_large"),
      Of<std::pair<float, std::string>>("pair"), Of<std::tuple<std::int8_t, double, std::vector<float>>>("tuple"),
      Of<std::map<std::string, float>>("map"), Of<std::map<std::int32_t, std::vector<std::string>>>("map_vector"),
      Of<std::multimap<std::int32_t, float>>("multimap"), Of<std::unordered_map<std::int32_t, float>>("unordered_map"),
      Of<std::set<std::int32_t>>("set"), Of<std::multiset<std::string>>("multiset"),
      Of<std::unordered_set<std::int64_t>>("unordered_set"), Of<ROOT::RVec<float>>("rvec"),
      Of<ROOT::RVec<ROOT::RVec<std::int32_t>>>("rvec_rvec"), Of<std::optional<float>>("optional"),
      Of<std::optional<std::vector<std::int32_t>>>("optional_vector"), Of<std::optional<Point>>("optional_point"), Of<std::unique_ptr<double>>("unique_ptr"),
      Of<std::vector<std::optional<std::string>>>("vector_optional"), Of<std::variant<std::int32_t, std::string, std::vector<float>>>("variant"),
      Of<std::vector<std::variant<float, std::string>>>("vector_variant"), Of<std::atomic<std::int32_t>>("atomic"),
      Of<Colour>("enum"), Of<std::vector<Small>>("vector_enum"), Of<Point>("point"), Of<Track>("track"), Of<Both>("both"),
      Of<std::vector<Track>>("vector_track"), Of<Holder>("holder"), Of<std::vector<Point>>("vector_point"),
      Of<Nothing>("nothing"), Of<std::vector<Nothing>>("vector_nothing"),
      Made<Streamed>("streamed", Typed("Streamed")), Made<std::vector<Streamed>>("vector_streamed", Typed("std::vector<Streamed>")),
      Made<HasStreamed>("has_streamed", Typed("HasStreamed")), Made<Track>("streamed_track", ByStreamer("Track")),
      Made<Nested>("streamed_nested", ByStreamer("Nested")),
      Made<Record>("untyped", Untyped), Made<std::vector<Record>>("untyped_many", UntypedMany), WithArrays("arrays"),
      Made<TLorentzVector>("streamed_lorentz", ByStreamer("TLorentzVector")),
      Made<std::vector<Track>>("streamed_tracks", ByStreamer("std::vector<Track>"))};
   return all;
}

inline const Field &Named_(const std::string &name)
{
   for (auto &field : Fields()) if (field.name == name) return field;
   throw std::runtime_error("no field " + name);
}

std::vector<std::string> Names()
{
   std::vector<std::string> names;
   for (auto &field : Fields()) names.push_back(field.name);
   return names;
}

// Files ----------------------------------------------------------------------------------------------------------

void Write(const std::string &path, const std::vector<std::string> &names, const std::vector<std::string> &late,
                  unsigned entries, std::uint64_t seed, const Layout &layout)
{
   Random rng(seed);
   auto model = ROOT::RNTupleModel::Create();
   for (auto &name : names) Named_(name).add(*model, rng, layout.randomEncodings);
   for (auto &name : names) {
      if (name != "vector_float" && name != "vector_track") continue;
      auto count = ROOT::RFieldBase::Create("n_" + name, "ROOT::RNTupleCardinality<std::uint32_t>").Unwrap();
      model->AddProjectedField(std::move(count), [&](const std::string &) { return name; });
      if (name == "vector_float") continue;
      auto projected = ROOT::RFieldBase::Create("track_name", "std::vector<std::string>").Unwrap();
      model->AddProjectedField(std::move(projected), [&](const std::string &target) {
         return target == "track_name" ? "vector_track" : "vector_track._0.:_1.name";
      });
   }
   ROOT::RNTupleWriteOptions options;
   options.SetCompression(layout.compression);
   options.SetInitialUnzippedPageSize(std::min(layout.pageBytes, 64u));
   options.SetMaxUnzippedPageSize(layout.pageBytes);
   options.SetEnablePageChecksums(layout.checksums);
   if (layout.maxKeySize) ROOT::Internal::RNTupleWriteOptionsManip::SetMaxKeySize(options, layout.maxKeySize);
   TFile file(path.c_str(), "RECREATE");
   auto writer = ROOT::RNTupleWriter::Append(std::move(model), "ntuple", file, options);
   auto attributes = ROOT::RNTupleModel::Create();
   auto about = attributes->MakeField<std::string>("about");
   std::optional<ROOT::Experimental::RNTupleAttrSetWriterHandle> set;
   if (layout.attributes) set.emplace(writer->CreateAttributeSet(std::move(attributes), "attributes"));
   auto &entry = writer->GetModel().GetDefaultEntry();
   std::vector<std::function<void(Random &)>> fill;
   for (auto &name : names) fill.push_back(Named_(name).bind(const_cast<ROOT::REntry &>(entry)));
   for (unsigned index = 0; index < entries; ++index) {
      ROOT::Experimental::RNTupleAttrPendingRange range;
      if (set) range = (*set)->BeginRange();
      if (layout.extendAt && index == layout.extendAt)
         for (auto &name : late) fill.push_back(Named_(name).extend(*writer));
      for (auto &one : fill) one(rng);
      writer->Fill();
      if (set) *about = std::to_string(index), (*set)->CommitRange(std::move(range));
      if ((index + 1) % layout.clusters == 0)
         writer->CommitCluster(layout.groups && (index + 1) / layout.clusters % layout.groups == 0);
   }
}

std::string Json(const std::string &path, const std::string &name, const std::string &full)
{
   return Named_(name).json(path, full);
}

} // namespace peers
