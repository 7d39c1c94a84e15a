// Branches of objects and containers of each kind, one tree each, with the dictionaries that ROOT needs to read them.
#include <TClonesArray.h>
#include <TFile.h>
#include <TH1F.h>
#include <TLorentzVector.h>
#include <TNamed.h>
#include <TObjArray.h>
#include <TRandom3.h>
#include <TTree.h>

#include <array>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace objects {

struct Hit : public TObject {
   float x = 0, y = 0, z = 0;
   int layer = 0;
   void Set(TRandom &random)
   {
      x = random.Gaus();
      y = random.Gaus();
      z = random.Gaus();
      layer = random.Integer(12);
   }
   ClassDefOverride(Hit, 1);
};

struct Track : public TNamed {
   double momentum[5] = {};
   std::vector<float> residuals;
   std::vector<Hit> hits;
   std::string algorithm;
   Hit *last = nullptr;
   ~Track() override { delete last; }
   void Set(TRandom &random)
   {
      SetName("track");
      for (auto &one : momentum)
         one = random.Gaus();
      residuals.resize(random.Integer(6));
      for (auto &one : residuals)
         one = random.Gaus();
      hits.resize(random.Integer(5));
      for (auto &one : hits)
         one.Set(random);
      algorithm = random.Rndm() < 0.5 ? "kalman" : "combinatorial";
      delete last;
      last = random.Rndm() < 0.7 ? new Hit : nullptr;
      if (last)
         last->Set(random);
   }
   ClassDefOverride(Track, 2);
};

} // namespace objects

#ifdef __ROOTCLING__
#pragma link C++ class objects::Hit+;
#pragma link C++ class objects::Track+;
#pragma link C++ class std::vector<objects::Hit>+;
#pragma link C++ class std::vector<TLorentzVector>+;
#pragma link C++ class std::vector<std::vector<float>>+;
#pragma link C++ class std::vector<std::vector<TLorentzVector>>+;
#pragma link C++ class std::map<std::string, double>+;
#pragma link C++ class std::map<int, std::vector<float>>+;
#pragma link C++ class std::pair<int, float>+;
#pragma link C++ class std::vector<std::pair<int, float>>+;
#endif

namespace objects {

template <class T, class Fill>
long long WriteTree(TFile &file, T &object, int split, int entries, Fill fill)
{
   file.cd();
   TTree tree("tree", "one branch");
   TRandom3 random(20260101);
   tree.Branch("values", &object, 32000, split);
   for (int entry = 0; entry < entries; ++entry) {
      fill(object, random);
      tree.Fill();
   }
   tree.Write();
   return tree.GetEntries();
}

inline TLorentzVector FourVector(TRandom &random)
{
   return {random.Gaus(), random.Gaus(), random.Gaus(), 5 + random.Gaus()};
}

template <class T, class Element>
long long WriteSequence(TFile &file, int split, int entries, Element element)
{
   T values;
   return WriteTree(file, values, split, entries, [&](T &all, TRandom &random) {
      all.clear();
      const int count = random.Integer(8);
      for (int i = 0; i < count; ++i)
         all.insert(all.end(), element(random));
   });
}

inline std::vector<float> Floats(TRandom &random)
{
   std::vector<float> floats(random.Integer(6));
   for (auto &one : floats)
      one = random.Gaus();
   return floats;
}

inline long long WriteContainers(TFile &file, const std::string &kind, int n)
{
   using Pair = std::pair<int, float>;
   if (kind == "vector of vectors")
      return WriteSequence<std::vector<std::vector<float>>>(file, 0, n, Floats);
   if (kind == "strings")
      return WriteSequence<std::vector<std::string>>(file, 0, n, [](TRandom &r) {
         return std::string(r.Integer(20), 'a');
      });
   if (kind == "map of strings, memberwise")
      return WriteSequence<std::map<std::string, double>>(file, 0, n, [](TRandom &r) {
         return std::pair<std::string, double>(std::to_string(r.Integer(1000)), r.Gaus());
      });
   if (kind == "map of vectors, memberwise")
      return WriteSequence<std::map<int, std::vector<float>>>(file, 0, n, [](TRandom &r) {
         return std::pair<int, std::vector<float>>(r.Integer(1000), Floats(r));
      });
   if (kind == "pairs, memberwise")
      return WriteSequence<std::vector<Pair>>(file, 0, n, [](TRandom &r) {
         return Pair(r.Integer(1000), r.Gaus());
      });
   throw std::runtime_error("no such kind: " + kind);
}

inline long long WritePointers(TFile &file, const std::string &kind, int n)
{
   if (kind == "TClonesArray, unsplit") {
      TClonesArray clones("objects::Hit", 10);
      return WriteTree(file, clones, 0, n, [](TClonesArray &all, TRandom &r) {
         all.Clear();
         const int count = r.Integer(8);
         for (int i = 0; i < count; ++i)
            static_cast<Hit *>(all.ConstructedAt(i))->Set(r);
      });
   }
   TObjArray array;
   array.SetOwner();
   return WriteTree(file, array, 0, n, [](TObjArray &all, TRandom &r) {
      all.Clear();
      const int count = r.Integer(8);
      for (int i = 0; i < count; ++i) {
         auto *hit = new Hit;
         hit->Set(r);
         all.Add(hit);
      }
   });
}

// Writes a tree with one branch `values` of this kind.
inline long long WriteKind(const std::string &path, const std::string &kind, int n)
{
   std::unique_ptr<TFile> file(TFile::Open(path.c_str(), "RECREATE", "", 101));
   if (!file || file->IsZombie())
      throw std::runtime_error("cannot write " + path);
   auto vectors = [](TRandom &r) { return FourVector(r); };
   if (kind == "TLorentzVector") {
      TLorentzVector one;
      return WriteTree(*file, one, 0, n, [](TLorentzVector &all, TRandom &r) { all = FourVector(r); });
   }
   if (kind == "vector<TLorentzVector>")
      return WriteSequence<std::vector<TLorentzVector>>(*file, 0, n, vectors);
   if (kind == "vector<TLorentzVector>, split")
      return WriteSequence<std::vector<TLorentzVector>>(*file, 99, n, vectors);
   if (kind == "vector<vector<TLorentzVector>>")
      return WriteSequence<std::vector<std::vector<TLorentzVector>>>(*file, 0, n, [](TRandom &r) {
         std::vector<TLorentzVector> inner(r.Integer(4));
         for (auto &one : inner)
            one = FourVector(r);
         return inner;
      });
   if (kind == "class with bases, members and a pointer") {
      Track track;
      return WriteTree(*file, track, 0, n, [](Track &one, TRandom &r) { one.Set(r); });
   }
   if (kind == "class, split") {
      Track track;
      return WriteTree(*file, track, 99, n, [](Track &one, TRandom &r) { one.Set(r); });
   }
   if (kind == "TH1F") {
      TH1F histogram("h", "", 100, -3, 3);
      histogram.SetDirectory(nullptr);
      return WriteTree(*file, histogram, 0, n / 4, [](TH1F &h, TRandom &r) { h.Fill(r.Gaus()); });
   }
   if (kind == "TClonesArray, unsplit" || kind == "TObjArray")
      return WritePointers(*file, kind, n);
   return WriteContainers(*file, kind, n);
}

// Writes a tree with at least this many branches: numbers and arrays of variable length, or members of split objects.
inline long long WriteWide(const std::string &path, const std::string &kind, int branches)
{
   std::unique_ptr<TFile> file(TFile::Open(path.c_str(), "RECREATE", "", 101));
   if (!file || file->IsZombie())
      throw std::runtime_error("cannot write " + path);
   TTree tree("tree", "many branches");
   TRandom3 random(20260101);
   std::vector<float> numbers(8 * branches);
   int count = 0;
   Track track;
   tree.Branch("n", &count, "n/I");
   for (int i = 0; tree.GetListOfBranches()->GetEntriesFast() < branches && kind != "split objects"; ++i) {
      const std::string name = "x" + std::to_string(i);
      const char *counted = i % 2 ? "[n]" : "";
      tree.Branch(name.c_str(), &numbers[8 * i], (name + counted + "/F").c_str());
   }
   for (int i = 0; kind == "split objects" && tree.GetNbranches() * 18 < branches; ++i)
      tree.Branch(("track" + std::to_string(i) + ".").c_str(), &track, 32000, 99);
   for (int entry = 0; entry < 100; ++entry) {
      count = random.Integer(8);
      for (auto &one : numbers)
         one = random.Gaus();
      track.Set(random);
      tree.Fill();
   }
   tree.Write();
   return tree.GetEntries();
}

} // namespace objects
