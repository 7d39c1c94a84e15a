// Conversion of values of any type from and to the bytes of an archive, which the Python generator packs and unpacks.
// Numbers are in native byte order. Strings and containers begin with an unsigned 32-bit count. Pointers begin with a
// byte: 0 for null, otherwise the number of the object's class.
#ifndef BRANCHLINE_PEERS_ARCHIVE_H
#define BRANCHLINE_PEERS_ARCHIVE_H

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "Math/Vector4D.h"
#include "ROOT/RVec.hxx"
#include "TArrayD.h"
#include "TArrayF.h"
#include "TArrayI.h"
#include "TArrayS.h"
#include "TClonesArray.h"
#include "ROOT/RVec.hxx"
#include "TDatime.h"
#include "TList.h"
#include "TLorentzVector.h"
#include "TMatrixD.h"
#include "TNamed.h"
#include "TObjArray.h"
#include "TObjString.h"
#include "TObject.h"
#include "TRef.h"
#include "TString.h"
#include "TVector2.h"
#include "TVector3.h"
#include "TVectorD.h"

namespace peers {

/// An archive to read values from.
struct Source {
  static constexpr bool reads = true;
  const char* at = nullptr;
  void raw(void* value, std::size_t size) { std::memcpy(value, at, size); at += size; }
};

/// An archive to append values to.
struct Sink {
  static constexpr bool reads = false;
  std::string bytes;
  void raw(const void* value, std::size_t size) { bytes.append(static_cast<const char*>(value), size); }
};

template <class A, class T> void pass(A& archive, T& value);

template <class T, template <class...> class C> struct is_made_of : std::false_type {};
template <template <class...> class C, class... Ts> struct is_made_of<C<Ts...>, C> : std::true_type {};
template <class T> struct is_bitset : std::false_type {};
template <std::size_t N> struct is_bitset<std::bitset<N>> : std::true_type {};
template <class T> struct is_std_array : std::false_type {};
template <class T, std::size_t N> struct is_std_array<std::array<T, N>> : std::true_type {};
template <class T, class = void> struct is_map : std::false_type {};
template <class T> struct is_map<T, std::void_t<typename T::mapped_type>> : std::true_type {};
template <class T, class = void> struct is_keyed : std::false_type {};
template <class T> struct is_keyed<T, std::void_t<typename T::key_type>> : std::true_type {};
template <class T, class = void> struct is_container : std::false_type {};
template <class T> struct is_container<T, std::void_t<typename T::value_type, typename T::iterator>> : std::true_type {};

template <class A> std::uint32_t passCount(A& archive, std::size_t count) {
  auto narrow = static_cast<std::uint32_t>(count);
  archive.raw(&narrow, sizeof narrow);
  return narrow;
}

template <class A> void passText(A& archive, std::string& text) {
  text.resize(passCount(archive, text.size()));
  archive.raw(text.data(), text.size());
}

template <class T> struct Element { using type = typename T::value_type; };
template <class K, class V, class... R> struct Element<std::map<K, V, R...>> { using type = std::pair<K, V>; };
template <class K, class V, class... R> struct Element<std::multimap<K, V, R...>> { using type = std::pair<K, V>; };
template <class K, class V, class... R> struct Element<std::unordered_map<K, V, R...>> {
  using type = std::pair<K, V>;
};

template <class T> void passContainer(Source& archive, T& value) {
  value.clear();
  const auto count = passCount(archive, 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    typename Element<T>::type element{};  // a new element each time, because copies share the targets of pointers
    pass(archive, element);
    if constexpr (is_keyed<T>::value) value.insert(std::move(element));
    else if constexpr (is_made_of<T, std::forward_list>::value) value.push_front(std::move(element));
    else value.push_back(std::move(element));
  }
  if constexpr (is_made_of<T, std::forward_list>::value) value.reverse();
}

template <class T> void passContainer(Sink& archive, T& value) {
  passCount(archive, std::distance(value.begin(), value.end()));
  for (auto&& element : value) {
    if constexpr (std::is_same_v<T, std::vector<bool>>) {
      bool bit = element;
      pass(archive, bit);
    } else {
      pass(archive, const_cast<typename std::remove_const_t<std::remove_reference_t<decltype(element)>>&>(element));
    }
  }
}

template <class A, class T> void passTArray(A& archive, T& value) {
  const auto count = passCount(archive, value.GetSize());
  if constexpr (A::reads) value.Set(count);
  for (std::uint32_t i = 0; i < count; ++i) pass(archive, value[i]);
}

/// Passes a pointer to an object of one of several classes.
template <class A, class Declared, class... Classes> void passPointer(A& archive, Declared*& pointer) {
  std::uint8_t number = 0;
  if constexpr (A::reads) {
    pointer = nullptr;
    archive.raw(&number, 1);
    std::uint8_t i = 0;
    auto make = [&](auto* null) {
      using Class = std::remove_pointer_t<decltype(null)>;
      if (++i != number) return;
      auto* made = new Class;
      pass(archive, *made);
      pointer = made;
    };
    (make(static_cast<Classes*>(nullptr)), ...);
  } else {
    std::uint8_t i = 0;
    if (pointer) ((++i, typeid(*pointer) == typeid(Classes) ? number = i : 0), ...);
    archive.raw(&number, 1);
    i = 0;
    auto give = [&](auto* null) {
      using Class = std::remove_pointer_t<decltype(null)>;
      if (++i == number) pass(archive, *dynamic_cast<Class*>(pointer));
    };
    (give(static_cast<Classes*>(nullptr)), ...);
  }
}

/// The possible classes of objects behind pointers to `T`. Families specialise it with a tuple of pointers to these
/// classes.
template <class T> struct Family { using classes = std::tuple<T*>; };

template <class A, class Declared, class... Classes>
void passAnyOf(A& archive, Declared*& pointer, const std::tuple<Classes*...>*) {
  passPointer<A, Declared, Classes...>(archive, pointer);
}

/// Passes a variable-size array, whose length is another member.
template <class A, class N, class T> void passCounted(A& archive, N& count, T*& values) {
  count = static_cast<N>(passCount(archive, count));
  if constexpr (A::reads) {
    delete[] values;
    values = count > 0 ? new T[count] : nullptr;
  }
  for (N i = 0; i < count; ++i) pass(archive, values[i]);
}

/// Passes the objects behind the pointers of an array, which are never null.
template <class A, class T> void passPointed(A& archive, T& value) {
  if constexpr (std::is_array_v<T>) {
    for (auto& element : value) passPointed(archive, element);
  } else {
    pass(archive, *value);
  }
}

/// Passes the objects of a TClonesArray.
template <class T, class A> void passClones(A& archive, TClonesArray& array) {
  const auto count = passCount(archive, array.GetEntriesFast());
  if constexpr (A::reads) array.Delete();
  for (std::uint32_t i = 0; i < count; ++i) pass(archive, *static_cast<T*>(array.ConstructedAt(i)));
}

/// Passes the elements of a TObjArray: objects of several classes, or null pointers.
template <class A, class... Classes> void passObjects(A& archive, TObjArray& array) {
  const auto count = passCount(archive, array.GetEntriesFast());
  if constexpr (A::reads) { array.SetOwner(false); array.Clear(); }
  for (std::uint32_t i = 0; i < count; ++i) {
    TObject* object = A::reads ? nullptr : array.At(i);
    passPointer<A, TObject, Classes...>(archive, object);
    if constexpr (A::reads) array.AddAtAndExpand(object, i);
  }
}

/// Passes the objects of a TList, which may have several classes.
template <class A, class... Classes> void passList(A& archive, TList& list) {
  const auto count = passCount(archive, list.GetSize());
  if constexpr (A::reads) list.Clear("nodelete");
  for (std::uint32_t i = 0; i < count; ++i) {
    TObject* object = A::reads ? nullptr : list.At(i);
    passPointer<A, TObject, Classes...>(archive, object);
    if constexpr (A::reads) list.Add(object);
  }
}

template <class A, class T, class... Ts> void passNumbers(A& archive, T& value, Ts&... more) {
  pass(archive, value);
  if constexpr (sizeof...(Ts) > 0) passNumbers(archive, more...);
}

template <class A> void passRootClass(A& archive, TString& value) {
  std::string text(value.Data(), value.Length());
  passText(archive, text);
  if constexpr (A::reads) value = TString(text.data(), text.size());
}
template <class A> void passRootClass(A& archive, TNamed& value) {
  TString name = value.GetName(), title = value.GetTitle();
  passNumbers(archive, name, title);
  value.SetNameTitle(name, title);
}
template <class A> void passRootClass(A& archive, TObjString& value) {
  TString text = value.GetString();
  pass(archive, text);
  value.SetString(text);
}
template <class A> void passRootClass(A& archive, TVector2& value) {
  double x = value.X(), y = value.Y();
  passNumbers(archive, x, y);
  value.Set(x, y);
}
template <class A> void passRootClass(A& archive, TVector3& value) {
  double x = value.X(), y = value.Y(), z = value.Z();
  passNumbers(archive, x, y, z);
  value.SetXYZ(x, y, z);
}
template <class A> void passRootClass(A& archive, TLorentzVector& value) {
  double x = value.X(), y = value.Y(), z = value.Z(), t = value.T();
  passNumbers(archive, x, y, z, t);
  value.SetXYZT(x, y, z, t);
}
template <class A, class C> void passRootClass(A& archive, ROOT::Math::LorentzVector<C>& value) {
  typename C::Scalar parts[4];
  value.GetCoordinates(parts);
  passNumbers(archive, parts[0], parts[1], parts[2], parts[3]);
  value.SetCoordinates(parts);
}
template <class A> void passRootClass(A& archive, TDatime& value) {
  std::uint32_t packed = value.Get();
  pass(archive, packed);
  const auto bits = [&](int first, int count) { return static_cast<int>(packed >> first & ((1u << count) - 1)); };
  value.Set(bits(26, 6) + 1995, bits(22, 4), bits(17, 5), bits(12, 5), bits(6, 6), bits(0, 6));
}
template <class A> void passRootClass(A& archive, TRef& value) {
  std::uint32_t has_object = value.GetObject() != nullptr;
  pass(archive, has_object);
  if constexpr (A::reads) value = has_object ? new TNamed : nullptr;
  std::uint32_t number = value.GetUniqueID() & 0xffffff;
  archive.raw(&number, A::reads ? 0 : sizeof number);
}
template <class A> void passRootClass(A& archive, TMatrixD& value) {
  std::int32_t rows = value.GetNrows(), columns = value.GetNcols(), row = value.GetRowLwb(), column = value.GetColLwb();
  std::int32_t elements = value.GetNoElements(), index = 0;
  double tolerance = value.GetTol();
  passNumbers(archive, rows, columns, row, column, elements, index, tolerance);
  const auto count = passCount(archive, elements);
  if constexpr (A::reads) value.ResizeTo(rows, columns);
  for (std::uint32_t i = 0; i < count; ++i) pass(archive, value.GetMatrixArray()[i]);
}
template <class A> void passRootClass(A& archive, TVectorD& value) {
  std::int32_t rows = value.GetNrows(), row = value.GetLwb();
  passNumbers(archive, rows, row);
  const auto count = passCount(archive, rows);
  if constexpr (A::reads) value.ResizeTo(rows);
  for (std::uint32_t i = 0; i < count; ++i) pass(archive, value.GetMatrixArray()[i]);
}
template <class A> void passRootClass(A& archive, TArrayD& value) { passTArray(archive, value); }
template <class A> void passRootClass(A& archive, TArrayF& value) { passTArray(archive, value); }
template <class A> void passRootClass(A& archive, TArrayI& value) { passTArray(archive, value); }
template <class A> void passRootClass(A& archive, TArrayS& value) { passTArray(archive, value); }

template <class A, class T, class = void> struct is_root_class : std::false_type {};
template <class A, class T>
struct is_root_class<A, T, std::void_t<decltype(passRootClass(std::declval<A&>(), std::declval<T&>()))>>
    : std::true_type {};
template <class A, class T, class = void> struct has_pass : std::false_type {};
template <class A, class T>
struct has_pass<A, T, std::void_t<decltype(std::declval<T&>().pass(std::declval<A&>()))>> : std::true_type {};

template <class A, class T> void passMaybe(A& archive, T& value) {
  std::uint8_t is_there = static_cast<bool>(value);
  archive.raw(&is_there, 1);
  if constexpr (A::reads) value.reset();
  if (!is_there) return;
  if constexpr (A::reads) {
    if constexpr (is_made_of<T, std::optional>::value) value.emplace();
    else value = std::make_unique<typename T::element_type>();
  }
  pass(archive, *value);
}

template <class A, class... Ts> void passVariant(A& archive, std::variant<Ts...>& value) {
  auto number = static_cast<std::uint8_t>(value.index());
  archive.raw(&number, 1);
  if constexpr (A::reads) {
    std::uint8_t i = 0;
    ((i++ == number ? void(value = Ts{}) : void()), ...);
  }
  // In entries before a field was added, ROOT's variants have no value.
  if (!value.valueless_by_exception()) std::visit([&](auto& held) { pass(archive, held); }, value);
}

template <class A, class T> void pass(A& archive, T& value) {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    archive.raw(&value, sizeof value);
  } else if constexpr (has_pass<A, T>::value) {
    value.pass(archive);
  } else if constexpr (std::is_same_v<T, std::string>) {
    passText(archive, value);
  } else if constexpr (std::is_same_v<T, char*>) {
    std::string text = value ? value : "";
    passText(archive, text);
    if constexpr (A::reads) value = text.empty() ? nullptr : std::strcpy(new char[text.size() + 1], text.c_str());
  } else if constexpr (std::is_pointer_v<T>) {
    using Classes = typename Family<std::remove_pointer_t<T>>::classes;
    passAnyOf(archive, value, static_cast<const Classes*>(nullptr));
  } else if constexpr (is_root_class<A, T>::value) {
    passRootClass(archive, value);
  } else if constexpr (std::is_array_v<T> || is_std_array<T>::value) {
    for (auto& element : value) pass(archive, element);
  } else if constexpr (is_bitset<T>::value) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      bool bit = value[i];
      pass(archive, bit);
      value[i] = bit;
    }
  } else if constexpr (is_made_of<T, std::pair>::value || is_made_of<T, std::tuple>::value) {
    std::apply(
        [&](auto&... elements) {
          (pass(archive, const_cast<std::remove_const_t<std::remove_reference_t<decltype(elements)>>&>(elements)), ...);
        },
        value);
  } else if constexpr (is_made_of<T, std::optional>::value || is_made_of<T, std::unique_ptr>::value) {
    passMaybe(archive, value);
  } else if constexpr (is_made_of<T, std::variant>::value) {
    passVariant(archive, value);
  } else if constexpr (is_made_of<T, std::atomic>::value) {
    auto number = value.load();
    pass(archive, number);
    value.store(number);
  } else {
    static_assert(is_container<T>::value, "a type that the archive does not know");
    passContainer(archive, value);
  }
}

/// A type of a family, with functions that create an object and pass its values from and to an archive.
struct Slot {
  std::string type;
  void* (*make)();
  void (*take)(Source&, void*);
  void (*give)(Sink&, void*);
};

template <class T> Slot slotOf(const char* type) {
  return {type, [] { return static_cast<void*>(new T{}); },
          [](Source& source, void* object) { pass(source, *static_cast<T*>(object)); },
          [](Sink& sink, void* object) { pass(sink, *static_cast<T*>(object)); }};
}

template <class T> Slot clonesSlot(const char* type) {
  static const std::string name = type;
  return {"TClonesArray", [] { return static_cast<void*>(new TClonesArray(name.c_str())); },
          [](Source& source, void* object) { passClones<T>(source, *static_cast<TClonesArray*>(object)); },
          [](Sink& sink, void* object) { passClones<T>(sink, *static_cast<TClonesArray*>(object)); }};
}

template <class... Classes> Slot objectsSlot() {
  return {"TObjArray", [] { return static_cast<void*>(new TObjArray); },
          [](Source& source, void* object) { passObjects<Source, Classes...>(source, *static_cast<TObjArray*>(object)); },
          [](Sink& sink, void* object) { passObjects<Sink, Classes...>(sink, *static_cast<TObjArray*>(object)); }};
}

}  // namespace peers

#endif
