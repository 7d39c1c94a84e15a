// For test_flattened.py: classes with base classes, collections and pointers, and a function that writes their objects.

#include <TClonesArray.h>
#include <TFile.h>
#include <TLorentzVector.h>
#include <TObjArray.h>
#include <TRef.h>
#include <TRefArray.h>
#include <TTree.h>

#include <map>
#include <string>
#include <vector>

struct FlatPoint { float fX = 0, fY = 0; };
struct FlatLeft { int fId = 0; int fSide = 0; virtual ~FlatLeft() {} };
struct FlatRight { int fSide = 0; virtual ~FlatRight() {} };

class FlatHit : public TObject {
 public:
  float fE = 0;
  FlatPoint fPos;
  short fAdc[3] = {0, 0, 0};
  void Set(int entry, int k) { fE = entry + 0.25f * k; fPos = {1.f * entry, -1.f * k}; fAdc[0] = entry; fAdc[2] = -k; }
  ClassDefOverride(FlatHit, 1)
};

class FlatOther : public TObject {
 public:
  double fOther = 1;
  ClassDefOverride(FlatOther, 1)
};

class FlatTrack : public TObject, public FlatLeft, public FlatRight {
 public:
  float fPt = 0;
  Double32_t fEta = 0;
  FlatPoint fPos;
  std::string fName;
  TString fLabel;
  std::vector<float> fChi;
  std::vector<FlatHit> fHits;
  FlatHit fBest;
  FlatHit *fLast = nullptr;
  TRef fRef;
  int fN = 0;
  float *fArray = nullptr;  //[fN]
  TLorentzVector fP;
  FlatTrack() = default;
  FlatTrack(const FlatTrack &other) : FlatTrack() { *this = other; }
  FlatTrack &operator=(const FlatTrack &other) { Set(other.fEntry, other.fK); return *this; }
  ~FlatTrack() override { delete[] fArray; delete fLast; }
  void Set(int entry, int k) {
    fEntry = entry; fK = k;
    fId = 100 * entry + k; FlatLeft::fSide = k; FlatRight::fSide = -k;
    fPt = entry + 0.5f * k; fEta = 0.1 * entry - k; fPos = {1.f * entry, 1.f * k};
    fName = std::string(k, 'n'); fLabel = TString('t', entry % 3);
    fChi.assign((entry + k) % 3, entry); fHits.resize((entry + 2 * k) % 3);
    for (size_t h = 0; h < fHits.size(); ++h) fHits[h].Set(entry, h);
    fBest.Set(entry, k);
    delete fLast; fLast = entry % 2 ? new FlatHit : nullptr;
    delete[] fArray; fN = entry % 4; fArray = fN ? new float[fN] : nullptr;
    for (int i = 0; i < fN; ++i) fArray[i] = i + 0.5f;
    fP.SetPxPyPzE(entry, k, 1, 2);
  }
  int fEntry = 0;  //!
  int fK = 0;      //!
  ClassDefOverride(FlatTrack, 1)
};

class FlatEvent : public TObject {
 public:
  int fRun = 0;
  FlatPoint fVertex;
  FlatTrack fLead;
  std::vector<FlatTrack> fTracks;
  std::vector<std::vector<float>> fMatrix;
  std::map<int, float> fMap;
  std::vector<FlatHit *> fPointers;
  TRefArray fRefs;
  TObjArray fObjects;
  std::vector<std::string> fWords;
  std::vector<bool> fFlags;
  FlatPoint fCorners[2];
  ClassDefOverride(FlatEvent, 1)
};

#ifdef __ROOTCLING__
#pragma link C++ class FlatPoint+;
#pragma link C++ class FlatLeft+;
#pragma link C++ class FlatRight+;
#pragma link C++ class FlatHit+;
#pragma link C++ class FlatOther+;
#pragma link C++ class FlatTrack+;
#pragma link C++ class FlatEvent+;
#pragma link C++ class std::vector<FlatHit>+;
#pragma link C++ class std::vector<FlatHit *>+;
#pragma link C++ class std::vector<FlatTrack>+;
#pragma link C++ class std::map<int, float>+;
#pragma link C++ class std::vector<std::vector<float>>+;
#endif

// Writes `entries` entries, counted from `first`. If `mixed` is not negative, the TObjArray of this entry has an object
// of another class. If `null` is not negative, the vector of pointers of this entry has a null pointer.
void write_objects(const char *path, int split, int first, int entries, int mixed, int null) {
  TFile file(path, "RECREATE");
  TTree tree("T", "objects");
  tree.SetAutoFlush(20);
  FlatEvent *event = new FlatEvent;
  FlatTrack *lead = new FlatTrack;
  std::vector<FlatTrack> tracks;
  TClonesArray *clones = new TClonesArray("FlatHit");
  int n = 0;
  float flat[10];
  tree.Branch("event", &event, 32000, split);
  // Expressions cannot name a column with a dot at its end.
  tree.Branch(split ? "lead." : "lead", &lead, 32000, split);
  tree.Branch("tracks", &tracks, 32000, split);
  tree.Branch("clones", &clones, 32000, split);
  tree.Branch("n", &n, "n/I");
  tree.Branch("flat", flat, "flat[n]/F");
  for (int i = first; i < first + entries; ++i) {
    event->fRun = i;
    event->fVertex = {0.5f * i, 2};
    event->fLead.Set(i, 1);
    event->fTracks.resize(i % 4);
    for (int k = 0; k < i % 4; ++k) event->fTracks[k].Set(i, k);
    event->fMatrix.assign(i % 3, std::vector<float>(i % 2, i));
    event->fMap.clear();
    if (i % 3) event->fMap[i] = 2 * i;
    for (auto *hit : event->fPointers) delete hit;
    event->fPointers.clear();
    for (int k = 0; k < i % 3; ++k) { event->fPointers.push_back(new FlatHit); event->fPointers.back()->Set(i, k); }
    if (i == null) event->fPointers.push_back(nullptr);
    event->fObjects.Delete();
    // The first entries are empty, so that only later ones show the class.
    for (int k = 0; k < (i < 30 ? 0 : i % 3); ++k) {
      auto *hit = new FlatHit;
      hit->Set(i, k);
      event->fObjects.Add(hit);
    }
    if (i == mixed) event->fObjects.Add(new FlatOther);
    event->fWords.assign(i % 3, std::string(i % 4, 'w'));
    event->fFlags.assign(i % 4, i % 2);
    event->fCorners[1] = {1.f * i, -1.f * i};
    lead->Set(i, 2);
    tracks = event->fTracks;
    clones->Clear();
    for (int k = 0; k < i % 3; ++k) static_cast<FlatHit *>(clones->ConstructedAt(k))->Set(i, k);
    n = i % 5;
    for (int k = 0; k < n; ++k) flat[k] = k - 0.5f * i;
    tree.Fill();
  }
  tree.Write();
}

// Returns a member of each element of a collection.
template <class Collection, class Member>
auto flat_members(const Collection &collection, Member member) {
  std::vector<std::decay_t<decltype(member(*std::begin(collection)))>> members;
  for (auto &&element : collection) members.push_back(member(element));
  return members;
}
