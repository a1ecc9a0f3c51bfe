//! DFlash and DSpark drafters.
