// RNTuples whose fields are filled from an archive, and read into an archive.
#ifndef BRANCHLINE_PEERS_NTUPLE_H
#define BRANCHLINE_PEERS_NTUPLE_H

#include <ROOT/RField.hxx>
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleReader.hxx>
#include <ROOT/RNTupleWriteOptions.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <TDirectory.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "driver.h"

namespace peers {

/// Whether an encoding loses bits of the values.
inline bool loses(ROOT::ENTupleColumnType type) {
  using T = ROOT::ENTupleColumnType;
  return type == T::kReal16 || type == T::kReal32Trunc || type == T::kReal32Quant;
}

/// Gives access to the protected function that returns the encodings of a field.
struct OpenField : ROOT::RFieldBase {
  using ROOT::RFieldBase::GetColumnRepresentations;
};

/// Sets a random encoding for a field and each of its subfields. Returns whether one of the encodings loses bits.
inline bool drawEncodings(ROOT::RFieldBase& field, std::mt19937& random) {
  bool lossy = false;
  const auto& all = (field.*(&OpenField::GetColumnRepresentations))().GetSerializationTypes();
  auto chosen = all[random() % all.size()];
  const bool needs_settings = !chosen.empty() && loses(chosen[0]);
  if (needs_settings && dynamic_cast<ROOT::RField<float>*>(&field) == nullptr) chosen = all[0];
  if (!chosen.empty()) {
    using T = ROOT::ENTupleColumnType;
    auto* real = dynamic_cast<ROOT::RField<float>*>(&field);
    if (chosen[0] == T::kReal32Trunc) real->SetTruncated(10 + random() % 22);
    else if (chosen[0] == T::kReal32Quant) chosen = all[0];
    if (chosen[0] != T::kReal32Trunc) field.SetColumnRepresentatives({chosen});
    lossy = loses(chosen[0]);
    if (dynamic_cast<ROOT::RField<double>*>(&field) != nullptr) lossy = chosen[0] != T::kReal64 && chosen[0] != T::kSplitReal64;
  }
  for (auto* inner : field.GetMutableSubfields()) lossy |= drawEncodings(*inner, random);
  return lossy;
}

/// Writer of an RNTuple. Fields can be added before the first entry and later.
class NTupleWriting {
 public:
  explicit NTupleWriting(unsigned seed) : random(seed), model(ROOT::RNTupleModel::CreateBare()) {}

  bool addField(const std::string& name, Held& held, bool draw) {
    auto field = ROOT::RFieldBase::Create(name, held.slot.type).Unwrap();
    const bool lossy = draw && drawEncodings(*field, random);
    fields.emplace_back(name, &held);
    if (writer) {
      auto updater = writer->CreateModelUpdater();
      updater->BeginUpdate();
      updater->AddField(std::move(field));
      updater->CommitUpdate();
      bind();
    } else {
      model->AddField(std::move(field));
    }
    return lossy;
  }

  /// Adds a projected field, which shows the columns of another field.
  void addProjection(const std::string& name, const std::string& type, const std::string& of) {
    auto field = ROOT::RFieldBase::Create(name, type).Unwrap();
    model->AddProjectedField(std::move(field), [=](const std::string& path) { return of + path.substr(name.size()); });
  }

  void open(TDirectory& directory, const std::string& name, const ROOT::RNTupleWriteOptions& options) {
    writer = ROOT::RNTupleWriter::Append(std::move(model), name, directory, options);
    bind();
  }

  void fill() {
    for (auto& [name, held] : fields) held->put();
    writer->Fill(*entry);
  }

  void commitCluster(bool group) { writer->CommitCluster(group); }
  void close() { entry.reset(); writer.reset(); }

 private:
  void bind() {
    entry = writer->GetModel().CreateBareEntry();
    for (auto& [name, held] : fields) entry->BindRawPtr<void>(name, held->object);
  }

  std::mt19937 random;
  std::unique_ptr<ROOT::RNTupleModel> model;
  std::unique_ptr<ROOT::RNTupleWriter> writer;
  std::unique_ptr<ROOT::REntry> entry;
  std::vector<std::pair<std::string, Held*>> fields;
};

/// Reads fields of an RNTuple, entry by entry, into their objects, and appends the objects to their archives.
inline void readFields(const std::string& path, const std::string& name, const std::vector<std::string>& names,
                       const std::vector<Held*>& held) {
  auto reader = ROOT::RNTupleReader::Open(name, path);
  std::vector<ROOT::RNTupleView<void>> views;
  for (std::size_t i = 0; i < names.size(); ++i)
    views.push_back(reader->GetView(names[i], held[i]->object, held[i]->slot.type));
  for (auto index : reader->GetEntryRange()) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      views[i](index);
      held[i]->got();
    }
  }
}

}  // namespace peers

#endif
