// For test_enumerations.py: classes with enumerations, arrays and pointers, and functions that write their objects.

#include <string>
struct OneElement { std::string text[1]; std::vector<int> list[1]; std::string grid[1][2]; int z; };
void fill_one_element(TFile* file, int split) {
  TTree tree("one_element", "");
  OneElement o;
  tree.Branch("o.", &o, 32000, split);
  for (o.z = 0; o.z < 3; o.z++) {
    o.text[0] = std::to_string(o.z);
    o.list[0].assign(o.z, 7);
    o.grid[0][1] = "x";
    tree.Fill();
  }
  tree.Write();
}

class Keyed : public TObject {
 public:
  std::map<E_u8, std::set<int>> m;
  ClassDefOverride(Keyed, 1)
};
class Unsure : public TObject {
 public:
  E_u16 f[3];
  std::multimap<E_u16, E_u16> m;
  ClassDefOverride(Unsure, 1)
};
void fill_containers(TFile* file) {
  TTree tree("containers", "");
  std::vector<E_u8> vector;
  std::list<E_u8> list;
  std::vector<std::list<E_u8>> nested;
  auto* keyed = new Keyed;
  TObjArray objects;
  objects.SetOwner();
  objects.Add(keyed);
  auto* array = &objects;
  auto* unsure = new Unsure;
  TObjArray unsures;
  unsures.SetOwner();
  unsures.Add(unsure);
  auto* unsure_array = &unsures;
  int z = 0;
  // ROOT does not describe the pairs of maps in objects that are in a TObjArray and not streamed memberwise.
  TVirtualStreamerInfo::SetStreamMemberWise(kFALSE);
  tree.Branch("keyed", &array, 32000, 0);
  tree.Branch("unsure", &unsure_array, 32000, 0);
  tree.Branch("vector", &vector);
  tree.Branch("list", &list);
  tree.Branch("nested", "vector<list<E_u8>>", &nested);
  tree.Branch("z", &z);
  for (z = 0; z < 4; z++) {
    vector.assign(z, B_u8);
    list.assign(z, B_u8);
    nested.assign(z, list);
    keyed->m[B_u8].insert(z);
    unsure->m.insert({B_u16, A_u16});
    tree.Fill();
  }
  tree.Write();
  TVirtualStreamerInfo::SetStreamMemberWise(kTRUE);
}

#include <Math/Vector4D.h>
class Vectors : public TObject {
 public:
  std::vector<ROOT::Math::PxPyPzEVector> v;
  ClassDefOverride(Vectors, 1)
};
void fill_undescribed(TFile* file) {
  TTree tree("undescribed", "");
  TObjArray objects;
  objects.SetOwner();
  auto* vectors = new Vectors;
  objects.Add(vectors);
  auto* array = &objects;
  tree.Branch("array", &array, 32000, 0);
  for (int i = 0; i < 3; i++) {
    vectors->v.emplace_back(i, 0, 0, 0);
    tree.Fill();
  }
  tree.Write();
}

// The array has the size of a byte count, a version and a checksum.
struct ArrayBeforePair { E_u32 f[3]; std::pair<std::vector<int>, double> p; };
#ifdef __CLING__
#pragma link C++ class std::pair<std::vector<int>, double>+;
#endif
void fill_array_before_pair(TFile* file) {
  TTree tree("array_before_pair", "");
  ArrayBeforePair o;
  tree.Branch("whole.", &o, 32000, 0);
  for (int i = 0; i < 3; i++) {
    o.p.second = 1.5 * i;
    tree.Fill();
  }
  tree.Write();
}

// ROOT stores the first array and omits the second.
struct MixedArrays { E_i32 large[3]; int x; E_i16 small[4]; };
void fill_mixed_arrays(TFile* file) {
  TTree tree("mixed_arrays", "");
  MixedArrays o;
  tree.Branch("whole.", &o, 32000, 0);
  for (o.x = 0; o.x < 3; o.x++) {
    for (auto& one : o.large) one = B_i32;
    for (auto& one : o.small) one = B_i16;
    tree.Fill();
  }
  tree.Write();
}

// ROOT stores both arrays.
enum E_other : int { A_other = 1 };
struct StoredArrays { E_i32 one[3]; E_other two[2]; std::vector<int> v; };
void fill_stored_arrays(TFile* file) {
  file->SetCompressionLevel(0);
  TTree tree("stored_arrays", "");
  StoredArrays o;
  tree.Branch("whole.", &o, 32000, 0);
  for (auto& one : o.one) one = B_i32;
  for (auto& one : o.two) one = A_other;
  o.v = {11111, 22222, 33333};
  tree.Fill();
  tree.Write();
}

// If a vector of a small enumeration has a dictionary, ROOT treats it as a vector of ints and drops the remainder,
// except for a member that is streamed with its object.
#include <TClonesArray.h>
enum E_small : unsigned char { A_small = 1, B_small = 250 };
struct SmallEnumeration { std::vector<E_small> v; int z = 0; std::vector<E_small> a[1]; };
class SmallClone : public TObject {
 public:
  SmallEnumeration one;
  std::vector<E_small> v;
  ClassDefOverride(SmallClone, 1)
};
#ifdef __CLING__
#pragma link C++ enum E_small;
#pragma link C++ class std::vector<E_small>+;
#pragma link C++ class std::vector<SmallEnumeration>+;
#pragma link C++ class std::map<int, SmallEnumeration>+;
#pragma link C++ class std::map<int, std::vector<E_small>>+;
#pragma link C++ class std::vector<std::pair<int, std::vector<E_small>>>+;
#endif
void fill_taken_for_ints(TFile* file, const char* name, int number) {
  TTree tree(name, "");
  SmallEnumeration one;
  std::vector<SmallEnumeration> many;
  std::map<int, SmallEnumeration> named;
  std::map<int, std::vector<E_small>> map;
  std::vector<std::pair<int, std::vector<E_small>>> pairs;
  TClonesArray clones("SmallClone");
  auto* array = &clones;
  for (int split : {0, 99}) {
    std::string prefix = split ? "" : "whole_";
    tree.Branch((prefix + "one.").c_str(), &one, 32000, split);
    tree.Branch((prefix + "many").c_str(), &many, 32000, split);
    tree.Branch((prefix + "named").c_str(), &named, 32000, split);
    tree.Branch((prefix + "map").c_str(), &map, 32000, split);
    tree.Branch((prefix + "pairs").c_str(), &pairs, 32000, split);
    tree.Branch((prefix + "clones").c_str(), &array, 32000, split);
  }
  for (int i = 0; i < 3; i++) {
    std::vector<E_small> numbers(4 + i, E_small(number));
    one.v = one.a[0] = numbers;
    one.z = i;
    many.push_back(one);
    named[i] = one;
    map[i] = numbers;
    pairs.push_back({i, numbers});
    auto* clone = static_cast<SmallClone*>(clones.ConstructedAt(i));
    clone->one = one;
    clone->v = numbers;
    tree.Fill();
  }
  tree.Write();
}

// ROOT stores each 64-bit number as one int in containers that are members, and as two ints in containers behind
// pointers and in maps.
enum E_wide : long { A_wide = 1, B_wide = -5000000000 };
struct Wide {
  std::vector<E_wide> v;
  std::set<E_wide> s;
  std::vector<E_wide>* p = new std::vector<E_wide>;
  std::map<int, std::vector<E_wide>> m;
  std::vector<std::vector<E_wide>> vv;
  int z;
};
#ifdef __CLING__
#pragma link C++ class std::vector<E_wide>+;
#pragma link C++ class std::set<E_wide>+;
#pragma link C++ class std::vector<std::vector<E_wide>>+;
#pragma link C++ class std::map<int, std::vector<E_wide>>+;
#endif
void fill_wide(TFile* file, int split) {
  TTree tree("wide", "");
  Wide o;
  tree.Branch("o.", &o, 32000, split);
  for (o.z = 0; o.z < 3; o.z++) {
    o.v.assign(o.z, B_wide);
    o.s.insert(B_wide);
    *o.p = o.m[0] = o.v;
    o.vv = {o.v, {A_wide}};
    tree.Fill();
  }
  tree.Write();
}

// The file describes these enumerations only through pointers to containers.
struct BehindPointers {
  std::vector<E_wide>* wide = new std::vector<E_wide>;
  std::vector<E_i16>* narrow = new std::vector<E_i16>;
  int z;
};
void fill_behind_pointers(TFile* file, int split) {
  TTree tree(split ? "split" : "whole", "");
  BehindPointers o;
  tree.Branch("o.", &o, 32000, split);
  for (o.z = 0; o.z < 3; o.z++) {
    o.wide->assign(o.z, B_wide);
    o.narrow->assign(2 * o.z, E_i16(0));  // two of these, read as an int, are a valid number, too
    tree.Fill();
  }
  tree.Write();
}

#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
#ifdef __CLING__
#pragma link C++ enum E_i8;
#pragma link C++ enum E_u8;
#pragma link C++ class vector<list<E_u8>>+;
#endif
void fill_ntuple(TFile* file) {
  auto model = ROOT::RNTupleModel::Create();
  auto i8 = model->MakeField<E_i8>("i8");
  auto u8 = model->MakeField<E_u8>("u8");
  auto vector = model->MakeField<std::vector<E_i8>>("vector");
  auto writer = ROOT::RNTupleWriter::Append(std::move(model), "ntuple", *file);
  *i8 = B_i8;
  *u8 = B_u8;
  *vector = {A_i8, B_i8};
  writer->Fill();
}

#include <TNamed.h>
#include <TFile.h>
#include <TTree.h>
struct Plain { int v = 0; };
struct Pointers {
  Plain* fix[3] = {};
  TNamed* named[2] = {};
  Plain* square[2][2] = {};
  int z = 0;
};
void fill_pointers(TFile* file, int split) {
  TTree tree("pointers", "");
  Pointers o;
  tree.Branch("o.", &o, 32000, split);
  for (int i = 0; i < 4; i++) {
    o = Pointers();
    for (int j = 0; j < 3; j++) if ((i + j) % 3) { o.fix[j] = new Plain; o.fix[j]->v = 10 * i + j; }
    for (int j = 0; j < 2; j++) if ((i + j) % 2) o.named[j] = new TNamed(Form("n%d", i), Form("t%d", j));
    o.square[1][i % 2] = new Plain;
    o.square[1][i % 2]->v = i;
    o.z = i;
    tree.Fill();
  }
  tree.Write();
}

#include <array>
struct StdArrays {
  int id = 0;
  std::array<float, 3> place = {};
  std::vector<std::array<float, 3>> places;
  std::map<int, std::array<float, 3>> by_number;
};
void fill_arrays(TFile* file, int split) {
  TTree tree("arrays", "");
  StdArrays o;
  tree.Branch("o.", &o, 32000, split ? 1 : 0);
  for (int i = 0; i < 4; i++) {
    o = StdArrays();
    o.id = i;
    o.place = {1.5f * i, 2, 3};
    o.places.assign(i, {0.5f + i, 1, 2});
    for (int j = 0; j < i; j++) o.by_number[j] = {1.f * j, 1.f * i, -1};
    tree.Fill();
  }
  tree.Write();
}
