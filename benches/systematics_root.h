// The analysis of benches/systematics_wagon.py with compiled RDataFrame and Vary.
#include <ROOT/RDFHelpers.hxx>
#include <ROOT/RDataFrame.hxx>
#include <ROOT/RVec.hxx>
#include <TH1D.h>
#include <cmath>
#include <map>
#include <string>
#include <vector>

using Floats = ROOT::RVecF;
using Ints = ROOT::RVecI;

// Bin contents including underflow and overflow, by histogram and variation.
std::map<std::string, std::vector<double>> RunSystematics(const std::vector<std::string> &paths, int columns, int weights) {
   std::vector<std::string> scales, pdfs;
   for (int k = 1; k <= columns / 2; ++k)
      for (const auto *side : {"_up", "_down"})
         scales.push_back("jes" + std::to_string(k) + side);
   for (int k = 0; k < weights; ++k)
      pdfs.push_back("pdf_" + std::to_string(k));
   auto chosen = [](const Floats &values, const Ints &mask) { return Floats(values[mask]); };
   auto varied_pt = [=](const Floats &pt, const Floats &eta) {
      const Floats shape = 1 + abs(eta);
      ROOT::RVec<Floats> all;
      for (int k = 1; k <= columns / 2; ++k)
         for (const float size : {0.001f * k, -0.001f * k})
            all.push_back(pt * (1 + size * shape));
      return all;
   };
   auto varied_weight = [=](double weight, const Floats &pdf) {
      ROOT::RVecD all(weights);
      for (int k = 0; k < weights; ++k)
         all[k] = weight * pdf[k];
      return all;
   };
   auto node = ROOT::RDataFrame("Events", paths)
                  .Filter([](const Floats &pt, const Floats &eta) { return Sum(pt > 25 && abs(eta) < 2.1f) == 1; },
                          {"Muon_pt", "Muon_eta"})
                  .Define("weight", [](double weight) { return weight; }, {"genWeight"})
                  .Vary("weight", varied_weight, {"weight", "pdf"}, pdfs, "weight")
                  .Vary("Jet_pt", varied_pt, {"Jet_pt", "Jet_eta"}, scales, "pt")
                  .Define("good", [](const Floats &pt, const Floats &eta) { return Ints(pt > 30 && abs(eta) < 2.4f); },
                          {"Jet_pt", "Jet_eta"})
                  .Filter([](const Ints &mask) { return Sum(mask) >= 4; }, {"good"})
                  .Define("pt", chosen, {"Jet_pt", "good"})
                  .Define("eta", chosen, {"Jet_eta", "good"})
                  .Define("phi", chosen, {"Jet_phi", "good"})
                  .Define("ht", [](const Floats &pt) { return double(Sum(pt)); }, {"pt"})
                  .Define("jets", [](const Floats &pt) { return double(pt.size()); }, {"pt"})
                  .Define("muon", [](const Floats &pt, const Floats &eta) {
                        return double(pt[pt > 25 && abs(eta) < 2.1f][0]); }, {"Muon_pt", "Muon_eta"})
                  .Define("mass", [](const Floats &pt, const Floats &eta, const Floats &phi) {
                        return double(std::sqrt(2 * pt[0] * pt[1] *
                                                (std::cosh(eta[0] - eta[1]) - std::cos(phi[0] - phi[1])))); },
                          {"pt", "eta", "phi"});
   std::map<std::string, ROOT::RDF::Experimental::RResultMap<TH1D>> booked;
   std::vector<ROOT::RDF::RResultHandle> all;
   auto book = [&](const std::string &name, int bins, double low, double high) {
      auto nominal = node.Histo1D<double, double>({"", "", bins, low, high}, name, "weight");
      const auto [at, added] = booked.emplace(name, ROOT::RDF::Experimental::VariationsFor(nominal));
      all.emplace_back(at->second);
   };
   book("ht", 50, 0, 1000), book("jets", 10, 0, 10), book("muon", 50, 0, 250), book("mass", 50, 0, 1000);
   ROOT::RDF::RunGraphs(all);
   std::map<std::string, std::vector<double>> bins;
   for (auto &[name, results] : booked)
      for (const auto &key : results.GetKeys()) {
         auto &values = bins[name + "/" + key.substr(key.find(':') == std::string::npos ? 0 : key.find(':') + 1)];
         for (int bin = 0; bin <= results[key].GetNbinsX() + 1; ++bin)
            values.push_back(results[key].GetBinContent(bin));
      }
   return bins;
}
