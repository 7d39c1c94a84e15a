// Optimised ROOT readers, compiled before the measurement: a GetEntry loop over the files, with or without a
// TTreeCache, on one or several threads, or with ROOT's implicit multi-threading. root_loops.py generates the
// RDataFrame loops, since they need the types of the columns.
#pragma once
#include <ROOT/RDataFrame.hxx>
#include <ROOT/RVec.hxx>
#include <TBranch.h>
#include <TFile.h>
#include <TLeaf.h>
#include <TROOT.h>
#include <TTree.h>
#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct PassResult {
   long long entries = 0;
   long long values = 0;
   long long bytes_filled = 0;
   long long read_calls = 0;
   long long bytes_read = 0;
   void Add(const PassResult &other)
   {
      entries += other.entries;
      values += other.values;
      bytes_filled += other.bytes_filled;
      read_calls += other.read_calls;
      bytes_read += other.bytes_read;
   }
};

// Settings of a pass. cache_bytes < 0 uses ROOT's default, 0 disables TTreeCache, and any other size creates a cache
// that is given its branches, so that no entries are spent on learning. entry_stop < 0 is the end of the tree.
struct PassOptions {
   long long cache_bytes = -1;
   int threads = 1;
   bool implicit_threads = false;
   long long entry_start = 0;
   long long entry_stop = -1;
   long long StopOf(TTree &tree) const { return entry_stop < 0 ? tree.GetEntries() : entry_stop; }
};

// Buffer for the values of a branch with one leaf.
inline std::vector<char> BufferFor(TBranch &branch)
{
   long long bytes = 0;
   for (auto *object : *branch.GetListOfLeaves()) {
      auto *leaf = static_cast<TLeaf *>(object);
      long long count = leaf->GetLeafCount() ? std::max(1, leaf->GetLeafCount()->GetMaximum()) : 1;
      bytes += count * leaf->GetLenStatic() * leaf->GetLenType();
   }
   return std::vector<char>(std::max(bytes, 64LL) + 64);
}

inline void ChooseCache(TTree &tree, const std::vector<std::string> &branches, long long cache_bytes)
{
   if (cache_bytes < 0)
      return;
   tree.SetCacheSize(cache_bytes);
   if (cache_bytes == 0)
      return;
   if (branches.empty())
      tree.AddBranchToCache("*", true);
   for (const auto &name : branches)
      tree.AddBranchToCache(name.c_str(), true);
   tree.StopCacheLearningPhase();
}

inline PassResult ReadFlatFile(const std::string &path, const std::string &tree_name,
                               const std::vector<std::string> &branches, const PassOptions &options)
{
   std::unique_ptr<TFile> file(TFile::Open(path.c_str()));
   if (!file || file->IsZombie())
      throw std::runtime_error("cannot open " + path);
   auto *tree = file->Get<TTree>(tree_name.c_str());
   if (!tree)
      throw std::runtime_error("no tree " + tree_name + " in " + path);
   tree->SetImplicitMT(options.implicit_threads);
   if (!branches.empty()) {
      tree->SetBranchStatus("*", false);
      for (const auto &name : branches)
         tree->SetBranchStatus(name.c_str(), true);
   }
   std::vector<std::vector<char>> buffers;
   std::vector<TLeaf *> leaves;
   for (auto *object : *tree->GetListOfBranches()) {
      auto *branch = static_cast<TBranch *>(object);
      if (branch->TestBit(kDoNotProcess))
         continue;
      buffers.push_back(BufferFor(*branch));
      tree->SetBranchAddress(branch->GetName(), static_cast<void *>(buffers.back().data()));
      if (branches.empty() || std::find(branches.begin(), branches.end(), branch->GetName()) != branches.end())
         leaves.push_back(static_cast<TLeaf *>(branch->GetListOfLeaves()->At(0)));
   }
   ChooseCache(*tree, branches, options.cache_bytes);
   PassResult result;
   const long long stop = options.StopOf(*tree);
   for (long long entry = options.entry_start; entry < stop; ++entry) {
      const int bytes = tree->GetEntry(entry);
      if (bytes <= 0)
         throw std::runtime_error("GetEntry failed in " + path);
      result.bytes_filled += bytes;
      for (auto *leaf : leaves)
         result.values += leaf->GetLen();
   }
   result.entries = stop - options.entry_start;
   tree->ResetBranchAddresses();
   result.read_calls = file->GetReadCalls();
   result.bytes_read = file->GetBytesRead();
   return result;
}

// Several threads process the files of a list, each with its own TFile.
template <typename ReadFile>
PassResult ReadFiles(const std::vector<std::string> &paths, int threads, ReadFile read_file)
{
   PassResult total;
   if (threads <= 1) {
      for (const auto &path : paths)
         total.Add(read_file(path));
      return total;
   }
   std::atomic<size_t> next{0};
   std::vector<PassResult> results(threads);
   std::vector<std::exception_ptr> errors(threads);
   std::vector<std::thread> pool;
   for (int i = 0; i < threads; ++i)
      pool.emplace_back([&, i] {
         try {
            for (size_t index = next++; index < paths.size(); index = next++)
               results[i].Add(read_file(paths[index]));
         } catch (...) {
            errors[i] = std::current_exception();
         }
      });
   for (auto &thread : pool)
      thread.join();
   for (int i = 0; i < threads; ++i) {
      if (errors[i])
         std::rethrow_exception(errors[i]);
      total.Add(results[i]);
   }
   return total;
}

inline PassResult GetEntryPass(const std::vector<std::string> &paths, const std::string &tree_name,
                               const std::vector<std::string> &branches, const PassOptions &options)
{
   return ReadFiles(paths, options.threads,
                    [&](const std::string &path) { return ReadFlatFile(path, tree_name, branches, options); });
}

// Enables the branches of split objects in `wanted`, named by their path ("Tracks/Tracks.fP[5]"; a repeated path gets
// the suffix #2), and their parent branches, which contain the counts.
inline bool Activate(TObjArray *branches, const std::string &prefix, const std::set<std::string> &wanted,
                     std::multiset<std::string> &seen)
{
   bool any = false;
   for (auto *object : *branches) {
      auto *branch = static_cast<TBranch *>(object);
      const std::string chain = prefix + branch->GetName();
      seen.insert(chain);
      const auto times = seen.count(chain);
      const std::string key = times > 1 ? chain + "#" + std::to_string(times) : chain;
      const bool below = Activate(branch->GetListOfBranches(), chain + "/", wanted, seen);
      const bool active = below || wanted.count(key) > 0;
      branch->SetBit(kDoNotProcess, !active);
      any = any || active;
   }
   return any;
}

inline PassResult ReadSplitFile(const std::string &path, const std::string &tree_name,
                                const std::set<std::string> &wanted, const PassOptions &options)
{
   std::unique_ptr<TFile> file(TFile::Open(path.c_str()));
   if (!file || file->IsZombie())
      throw std::runtime_error("cannot open " + path);
   auto *tree = file->Get<TTree>(tree_name.c_str());
   if (!tree)
      throw std::runtime_error("no tree " + tree_name + " in " + path);
   std::multiset<std::string> seen;
   Activate(tree->GetListOfBranches(), "", wanted, seen);
   if (options.cache_bytes >= 0)
      tree->SetCacheSize(options.cache_bytes);
   const long long stop = options.StopOf(*tree);
   if (options.cache_bytes > 0) {
      tree->SetCacheEntryRange(options.entry_start, stop);
      tree->AddBranchToCache("*", true);
      tree->StopCacheLearningPhase();
   }
   PassResult result;
   for (long long entry = options.entry_start; entry < stop; ++entry)
      result.bytes_filled += tree->GetEntry(entry);
   result.entries = stop - options.entry_start;
   result.values = static_cast<long long>(wanted.size());
   tree->ResetBranchAddresses();
   result.read_calls = file->GetReadCalls();
   result.bytes_read = file->GetBytesRead();
   return result;
}

inline PassResult SplitPass(const std::vector<std::string> &paths, const std::string &tree_name,
                            const std::vector<std::string> &branches, const PassOptions &options)
{
   const std::set<std::string> wanted(branches.begin(), branches.end());
   return ReadFiles(paths, options.threads,
                    [&](const std::string &path) { return ReadSplitFile(path, tree_name, wanted, options); });
}

// Rewrites the tree with ROOT's default layout: baskets of 32 kB, flushed every 30 MB.
inline long long RewriteFile(const std::string &source, const std::string &target, const std::string &tree_name,
                             int compression)
{
   std::unique_ptr<TFile> in(TFile::Open(source.c_str()));
   auto *tree = in ? in->Get<TTree>(tree_name.c_str()) : nullptr;
   if (!tree)
      throw std::runtime_error("no tree " + tree_name + " in " + source);
   std::unique_ptr<TFile> out(TFile::Open(target.c_str(), "RECREATE", "", compression));
   if (!out || out->IsZombie())
      throw std::runtime_error("cannot write " + target);
   auto *copy = tree->CloneTree(0);
   for (auto *object : *copy->GetListOfBranches())
      static_cast<TBranch *>(object)->SetCompressionSettings(compression);
   copy->SetBasketSize("*", 32000);
   copy->SetAutoFlush(-30000000);
   copy->CopyEntries(tree, -1, "");
   const long long entries = copy->GetEntries();
   out->Write();
   out->Close();
   return entries;
}
