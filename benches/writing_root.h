// ROOT's writers with their fastest settings, with one thread per core. Baskets have the same size as Branchline's,
// which ROOT reaches after the first 30 MB; its initial size of 32 kB compresses less.
#include <ROOT/RNTupleFillContext.hxx>
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleParallelWriter.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <ROOT/TBufferMerger.hxx>
#include <TFile.h>
#include <TTree.h>
#include <thread>

constexpr int basket_bytes = 1 << 20;

struct Columns {
   std::vector<const float *> flat, lists;
   const long *starts;
};

void add(std::vector<const float *> &to, const float *values) { to.push_back(values); }

template <typename Work>
void on_cores(int cores, long count, Work work)
{
   std::vector<std::thread> threads;
   for (int core = 0; core < cores; ++core)
      threads.emplace_back(work, count * core / cores, count * (core + 1) / cores);
   for (auto &thread : threads)
      thread.join();
}

void fill_tree(TTree &tree, const Columns &in, long begin, long end)
{
   std::vector<float> x(in.flat.size());
   std::vector<std::vector<float>> v(in.lists.size(), std::vector<float>(8));
   int n = 0;
   for (size_t i = 0; i < x.size(); ++i)
      tree.Branch(("x" + std::to_string(i)).c_str(), &x[i], basket_bytes);
   if (!v.empty())
      tree.Branch("nv", &n, "nv/I", basket_bytes);
   for (size_t i = 0; i < v.size(); ++i) {
      auto name = "v_" + std::to_string(i);
      tree.Branch(name.c_str(), v[i].data(), (name + "[nv]/F").c_str(), basket_bytes);
   }
   for (long entry = begin; entry < end; ++entry) {
      for (size_t i = 0; i < x.size(); ++i)
         x[i] = in.flat[i][entry];
      n = in.starts[entry + 1] - in.starts[entry];
      for (size_t i = 0; i < v.size(); ++i)
         std::copy_n(in.lists[i] + in.starts[entry], n, v[i].data());
      tree.Fill();
   }
}

void write_tree(const char *path, int code, const Columns &in, long count, int cores)
{
   if (cores == 1) {
      TFile file(path, "RECREATE", "", code);
      TTree tree("events", "");
      fill_tree(tree, in, 0, count);
      file.Write();
      return;
   }
   ROOT::TBufferMerger merger(path, "RECREATE", code);
   on_cores(cores, count, [&](long begin, long end) {
      auto file = merger.GetFile();
      auto tree = new TTree("events", "", 99, file.get());
      tree->ResetBit(kMustCleanup);
      fill_tree(*tree, in, begin, end);
      file->Write();
   });
}

auto new_model(const Columns &in)
{
   auto model = ROOT::RNTupleModel::Create();
   for (size_t i = 0; i < in.flat.size(); ++i)
      model->MakeField<float>("x" + std::to_string(i));
   for (size_t i = 0; i < in.lists.size(); ++i)
      model->MakeField<std::vector<float>>("v_" + std::to_string(i));
   return model;
}

template <typename Writer>
void fill_ntuple(Writer &writer, ROOT::REntry &values, const Columns &in, long begin, long end)
{
   std::vector<std::shared_ptr<float>> x;
   std::vector<std::shared_ptr<std::vector<float>>> v;
   for (size_t i = 0; i < in.flat.size(); ++i)
      x.push_back(values.GetPtr<float>("x" + std::to_string(i)));
   for (size_t i = 0; i < in.lists.size(); ++i)
      v.push_back(values.GetPtr<std::vector<float>>("v_" + std::to_string(i)));
   for (long entry = begin; entry < end; ++entry) {
      for (size_t i = 0; i < x.size(); ++i)
         *x[i] = in.flat[i][entry];
      for (size_t i = 0; i < v.size(); ++i)
         v[i]->assign(in.lists[i] + in.starts[entry], in.lists[i] + in.starts[entry + 1]);
      writer.Fill(values);
   }
}

void write_ntuple(const char *path, int code, const Columns &in, long count, int cores)
{
   ROOT::RNTupleWriteOptions options;
   options.SetCompression(code);
   if (cores == 1) {
      auto writer = ROOT::RNTupleWriter::Recreate(new_model(in), "events", path, options);
      auto values = writer->CreateEntry();
      fill_ntuple(*writer, *values, in, 0, count);
      return;
   }
   auto writer = ROOT::RNTupleParallelWriter::Recreate(new_model(in), "events", path, options);
   on_cores(cores, count, [&](long begin, long end) {
      auto context = writer->CreateFillContext();
      auto values = context->CreateEntry();
      fill_ntuple(*context, *values, in, begin, end);
   });
}
