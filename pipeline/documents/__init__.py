"""Which documents each tool is offered (Appendix A), and how long documents become parts."""
