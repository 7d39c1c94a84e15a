// Events with objects, which flattened.py writes and reads: tracks like those of an ESD, and tracks with lists of hits.
#include <ROOT/RNTupleReader.hxx>
#include <TFile.h>
#include <TObject.h>
#include <TRandom3.h>
#include <TTree.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace flattened {

struct Vertex {
   float fX = 0, fY = 0, fZ = 0;
};

struct Particle {
   virtual ~Particle() {}
   int fLabel = 0;
   short fCharge = 0;
};

struct Track : public TObject, public Particle {
   double fP[5] = {};
   double fC[15] = {};
   float fSignal = 0, fLength = 0, fTime = 0, fChi2 = 0, fProbability[5] = {};
   unsigned int fFlags = 0;
   unsigned char fClusters = 0;
   Vertex fStart, fEnd;
   void Set(TRandom &random)
   {
      fLabel = random.Integer(1000);
      fCharge = random.Integer(2) ? 1 : -1;
      for (auto &one : fP)
         one = random.Gaus();
      for (auto &one : fC)
         one = random.Gaus();
      for (auto &one : fProbability)
         one = random.Rndm();
      fSignal = random.Gaus(50, 5);
      fLength = random.Gaus(300, 5);
      fTime = random.Gaus();
      fChi2 = random.Gaus();
      fFlags = random.Integer(1 << 20);
      fClusters = random.Integer(160);
      for (auto *vertex : {&fStart, &fEnd})
         *vertex = {float(random.Gaus()), float(random.Gaus()), float(random.Gaus())};
   }
   ClassDefOverride(Track, 1);
};

struct Hit {
   float fEnergy = 0;
   Vertex fPosition;
   virtual ~Hit() {}
   ClassDef(Hit, 1);
};

struct TrackWithHits : public Track {
   std::vector<Hit> fHits;
   void SetWithHits(TRandom &random)
   {
      Set(random);
      fHits.resize(random.Integer(10));
      for (auto &hit : fHits) {
         hit.fEnergy = random.Gaus();
         hit.fPosition = {float(random.Gaus()), float(random.Gaus()), float(random.Gaus())};
      }
   }
   ClassDefOverride(TrackWithHits, 1);
};

} // namespace flattened

#ifdef __ROOTCLING__
#pragma link C++ class flattened::Vertex+;
#pragma link C++ class flattened::Particle+;
#pragma link C++ class flattened::Track+;
#pragma link C++ class flattened::Hit+;
#pragma link C++ class flattened::TrackWithHits+;
#pragma link C++ class std::vector<flattened::Hit>+;
#pragma link C++ class std::vector<flattened::Track *>+;
#pragma link C++ class std::vector<flattened::Track>+;
#pragma link C++ class std::vector<flattened::TrackWithHits>+;
#endif

namespace flattened {

// Writes events with 0 to 39 tracks, with the codec zstd:5: vectors of objects ("tracks", "hits") or of pointers.
inline void Write(const std::string &path, const std::string &kind, int split, int events)
{
   std::unique_ptr<TFile> file(TFile::Open(path.c_str(), "RECREATE", "", 505));
   if (!file || file->IsZombie())
      throw std::runtime_error("cannot write " + path);
   TTree tree("tree", "events");
   TRandom3 random(20260101);
   std::vector<Track> tracks;
   std::vector<TrackWithHits> tracks_with_hits;
   std::vector<Track *> pointers;
   if (kind == "tracks")
      tree.Branch("Track", &tracks, 256000, split);
   else if (kind == "hits")
      tree.Branch("Track", &tracks_with_hits, 256000, split);
   else
      tree.Branch("Track", &pointers, 256000, split);
   for (int event = 0; event < events; ++event) {
      const int count = random.Integer(40);
      tracks.resize(count);
      tracks_with_hits.resize(kind == "hits" ? count : 0);
      for (auto &track : tracks)
         track.Set(random);
      for (auto &track : tracks_with_hits)
         track.SetWithHits(random);
      pointers.clear();
      for (auto &track : tracks)
         pointers.push_back(&track);
      tree.Fill();
   }
   tree.Write();
}

// Reads all branches of all entries. Returns the number of entries.
inline long ReadTree(const std::string &path)
{
   std::unique_ptr<TFile> file(TFile::Open(path.c_str()));
   auto *tree = file->Get<TTree>("tree");
   const long entries = tree->GetEntries();
   for (long entry = 0; entry < entries; ++entry)
      if (tree->GetEntry(entry) <= 0)
         throw std::runtime_error("an entry cannot be read");
   tree->ResetBranchAddresses();
   return entries;
}

// Reads all fields of all entries of an RNTuple. Returns the number of entries.
inline long ReadNtuple(const std::string &path)
{
   auto reader = ROOT::RNTupleReader::Open("tree", path);
   for (auto entry : *reader)
      reader->LoadEntry(entry);
   return reader->GetNEntries();
}

} // namespace flattened
