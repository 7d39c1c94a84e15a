// Types for which ROOT needs dictionaries.

#ifdef __CLING__
#pragma link off all globals;
#pragma link off all classes;
#pragma link off all functions;
#pragma link C++ enum Colour;
#pragma link C++ enum Small;
#pragma link C++ class Point+;
#pragma link C++ class Named+;
#pragma link C++ class Other+;
#pragma link C++ class Track+;
#pragma link C++ class Both+;
#pragma link C++ class Nothing+;
#pragma link C++ class Holder+;
#pragma link C++ class Base+;
#pragma link C++ class Derived+;
#pragma link C++ options=rntupleStreamerMode(true) class Streamed+;
#pragma link C++ class HasStreamed+;
#pragma link C++ class Nested+;
#pragma link C++ class Record+;
#pragma link C++ class std::vector<Record>+;
#pragma link C++ options=rntupleSoARecord(Record) class Arrays+;
#pragma link C++ class std::vector<Nested>+;
#pragma link C++ class std::vector<Streamed>+;
#pragma link C++ class std::map<std::int32_t,std::string>+;
#pragma link C++ class std::vector<Point>+;
#pragma link C++ class std::vector<Track>+;
#pragma link C++ class std::map<std::string,std::vector<float>>+;
#pragma link C++ class std::map<std::string,float>+;
#pragma link C++ class std::map<std::int32_t,std::vector<std::string>>+;
#pragma link C++ class std::multimap<std::int32_t,float>+;
#pragma link C++ class std::unordered_map<std::int32_t,float>+;
#pragma link C++ class std::set<std::int32_t>+;
#pragma link C++ class std::multiset<std::string>+;
#pragma link C++ class std::unordered_set<std::int64_t>+;
#pragma link C++ class std::vector<Nothing>+;
#pragma link C++ class std::vector<Small>+;
#endif
