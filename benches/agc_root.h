// The analysis of benches/agc_wagon.py with compiled RDataFrame. All samples are filled in one event loop.
#include <ROOT/RDFHelpers.hxx>
#include <ROOT/RDataFrame.hxx>
#include <ROOT/RVec.hxx>
#include <TH1D.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

using Floats = ROOT::RVecF;
using Ints = ROOT::RVecI;
using Bools = ROOT::RVec<bool>;
using Doubles = ROOT::RVecD;
using Names = std::vector<std::string>;

// The factor of `resolution_factors` for one jet.
inline double resolution_factor(float phi, float eta) {
   uint32_t phi_bits, eta_bits;
   std::memcpy(&phi_bits, &phi, 4);
   std::memcpy(&eta_bits, &eta, 4);
   uint64_t mixed = ((uint64_t(phi_bits) << 32) | eta_bits) + 0x9E3779B97F4A7C15;
   mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
   mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
   mixed ^= mixed >> 31;
   const double radius = std::sqrt(-2 * std::log(((mixed >> 40) + 1) / 16777216.0));
   return 1 + 0.05 * radius * std::cos(2 * M_PI * ((mixed & 0xFFFFFF) / 16777216.0));
}

inline double trijet_mass(const Doubles &pt, const Floats &eta, const Floats &phi, const Floats &mass,
                          const Floats &tag) {
   const size_t count = pt.size();
   std::vector<double> px(count), py(count), pz(count), energy(count);
   for (size_t i = 0; i < count; ++i) {
      px[i] = pt[i] * std::cos(phi[i]), py[i] = pt[i] * std::sin(phi[i]), pz[i] = pt[i] * std::sinh(eta[i]);
      energy[i] = std::sqrt(px[i] * px[i] + py[i] * py[i] + pz[i] * pz[i] + double(mass[i]) * mass[i]);
   }
   double largest = -1, found = 0;
   for (size_t i = 0; i < count; ++i)
      for (size_t j = i + 1; j < count; ++j)
         for (size_t k = j + 1; k < count; ++k) {
            if (std::max({tag[i], tag[j], tag[k]}) <= 0.5)
               continue;
            const double x = px[i] + px[j] + px[k], y = py[i] + py[j] + py[k];
            if (const double pt2 = x * x + y * y; pt2 > largest) {
               const double z = pz[i] + pz[j] + pz[k], e = energy[i] + energy[j] + energy[k];
               largest = pt2, found = std::sqrt(std::max(e * e - x * x - y * y - z * z, 0.0));
            }
         }
   return found;
}

inline ROOT::RVec<Doubles> VariedPt(const Doubles &pt, const Floats &eta, const Floats &phi) {
   ROOT::RVec<Doubles> varied{pt * 1.03, pt};
   for (size_t i = 0; i < pt.size(); ++i)
      varied[1][i] *= resolution_factor(phi[i], eta[i]);
   return varied;
}

// Up and down weights of the b tags of the four jets, and optionally of the scales.
inline auto VariedWeights(bool scale) {
   return [=](double weight, const Doubles &pt) {
      Doubles varied;
      for (size_t i = 0; i < 4; ++i)
         for (const double sign : {1.0, -1.0})
            varied.push_back(weight * (1 + sign * 0.075 * pt[i] / 50));
      if (scale) {
         varied.push_back(weight * 1.025);
         varied.push_back(weight * 0.975);
      }
      return varied;
   };
}

class TopPairs {
   std::map<std::string, ROOT::RDF::Experimental::RResultMap<TH1D>> fVaried;
   std::map<std::string, ROOT::RDF::RResultPtr<TH1D>> fNominal;
   std::vector<ROOT::RDF::RResultHandle> fAll;

   template <typename Node>
   void Book(Node node, const std::string &column, const std::string &key, bool varied) {
      auto histogram = node.template Histo1D<double, double>({"", "", 25, 50, 550}, column, "weight");
      if (varied) {
         const auto [at, added] = fVaried.emplace(key, ROOT::RDF::Experimental::VariationsFor(histogram));
         fAll.emplace_back(at->second);
      } else {
         fNominal.emplace(key, histogram);
         fAll.emplace_back(histogram);
      }
   }

   template <typename Node>
   void BookRegions(Node node, const std::string &sample, bool varied) {
      auto count = [](int least, int most) { return [=](int tags) { return tags >= least && tags <= most; }; };
      Book(node.Filter(count(1, 1), {"tags"}).Define("ht", [](const Doubles &pt) { return Sum(pt); }, {"jet_pt"}), "ht",
           "4j1b/" + sample, varied);
      Book(node.Filter(count(2, 1000), {"tags"})
              .Define("top_mass", trijet_mass, {"jet_pt", "jet_eta", "jet_phi", "jet_mass", "jet_tag"}),
           "top_mass", "4j2b/" + sample, varied);
   }

public:
   // Adds a sample with its event weight. `varied` adds the variations of the nominal sample, `scale` those of scales.
   void Add(const std::string &sample, const std::string &path, double weight, bool varied, bool scale) {
      auto good = [](const Doubles &pt, const Floats &eta, const Ints &id) {
         return Ints(pt > 30 && abs(eta) < 2.4f && (id & 4) != 0);
      };
      auto leptons = [](const Floats &e_pt, const Floats &e_eta, const Ints &cut, const Floats &e_sip,
                        const Floats &mu_pt, const Floats &mu_eta, const Bools &tight, const Floats &mu_sip,
                        const Floats &isolation) {
         return int(Sum(e_pt > 30 && abs(e_eta) < 2.1f && cut == 4 && e_sip < 4) +
                    Sum(mu_pt > 30 && abs(mu_eta) < 2.1f && tight && mu_sip < 4 && isolation < 0.15f));
      };
      auto chosen = [](const Floats &values, const Ints &mask) { return Floats(values[mask]); };
      ROOT::RDF::RNode node =
         ROOT::RDataFrame("Events", path)
            .Define("leptons", leptons,
                    {"Electron_pt", "Electron_eta", "Electron_cutBased", "Electron_sip3d", "Muon_pt", "Muon_eta",
                     "Muon_tightId", "Muon_sip3d", "Muon_pfRelIso04_all"})
            .Filter([](int count) { return count == 1; }, {"leptons"})
            .Define("pt", [](const Floats &pt) { return Doubles(pt.begin(), pt.end()); }, {"Jet_pt"})
            .Define("weight", [=]() { return weight; });
      if (varied)
         node = node.Vary("pt", VariedPt, {"pt", "Jet_eta", "Jet_phi"}, Names{"scale_up", "res_up"}, "pt");
      node = node.Define("good", good, {"pt", "Jet_eta", "Jet_jetId"})
                .Filter([](const Ints &mask) { return Sum(mask) >= 4; }, {"good"})
                .Define("jet_pt", [](const Doubles &pt, const Ints &mask) { return Doubles(pt[mask]); }, {"pt", "good"})
                .Define("jet_eta", chosen, {"Jet_eta", "good"})
                .Define("jet_phi", chosen, {"Jet_phi", "good"})
                .Define("jet_mass", chosen, {"Jet_mass", "good"})
                .Define("jet_tag", chosen, {"Jet_btagCSVV2", "good"})
                .Define("tags", [](const Floats &tag) { return int(Sum(tag > 0.5f)); }, {"jet_tag"});
      if (varied) {
         Names tags;
         for (const auto *name : {"btag_var_0", "btag_var_1", "btag_var_2", "btag_var_3", "scale_var"})
            if (scale || name[0] == 'b')
               for (const auto *direction : {"_up", "_down"})
                  tags.push_back(std::string(name) + direction);
         node = node.Vary("weight", VariedWeights(scale), {"weight", "jet_pt"}, tags, "weight");
      }
      BookRegions(node, sample, varied);
   }

   // Bin contents including underflow and overflow, by region, sample and variation.
   std::map<std::string, std::vector<double>> Run() {
      ROOT::RDF::RunGraphs(fAll);
      std::map<std::string, std::vector<double>> bins;
      auto keep = [&](const std::string &key, const TH1D &histogram) {
         const double *begin = histogram.GetArray();
         bins[key] = {begin, begin + histogram.GetNbinsX() + 2};
      };
      for (auto &[key, histogram] : fNominal)
         keep(key, *histogram);
      for (auto &[key, histograms] : fVaried)
         for (const auto &variation : histograms.GetKeys())
            keep(key + "/" + variation, histograms[variation]);
      return bins;
   }
};
