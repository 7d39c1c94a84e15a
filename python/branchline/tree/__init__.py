"""Files, trees and branches, and the arrays that come out of them."""
