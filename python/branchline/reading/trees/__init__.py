"""Files, directories, trees and branches, and the streams of chunks that read them."""
