package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
)

// maxBody is how many bytes of a request body are read.
const maxBody = 16 << 10

// Routes returns what the service serves:
//
//	POST /orders           {"item":"tea","cents":450}
//	POST /orders/{id}/pay
//	GET  /orders/{id}
//	GET  /stats
//
// All answers are JSON, errors are {"error":"..."}: 400 for a bad order, 404 for an
// unknown one, 409 for one that was paid or has expired.
func (s *Service) Routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.postOrder)
	mux.HandleFunc("POST /orders/{id}/pay", func(w http.ResponseWriter, r *http.Request) {
		order, err := s.Pay(r.Context(), r.PathValue("id"))
		answer(w, http.StatusOK, order, err)
	})
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		order, err := s.Order(r.PathValue("id"))
		answer(w, http.StatusOK, order, err)
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		stats, err := s.Stats()
		answer(w, http.StatusOK, stats, err)
	})
	return mux
}

func (s *Service) postOrder(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Item  string `json:"item"`
		Cents int64  `json:"cents"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&ask); err != nil {
		answer(w, 0, nil, fmt.Errorf("%w: %w", ErrBadOrder, err))
		return
	}
	order, err := s.Create(r.Context(), ask.Item, ask.Cents)
	answer(w, http.StatusCreated, order, err)
}

// answer writes a value, or an error if there is one.
func answer(w http.ResponseWriter, code int, v any, err error) {
	switch {
	case err == nil:
	case errors.Is(err, ErrBadOrder):
		code = http.StatusBadRequest
	case errors.Is(err, ErrNotFound):
		code = http.StatusNotFound
	case errors.Is(err, ErrTooLate), errors.Is(err, ErrPaid):
		code = http.StatusConflict
	default:
		code = http.StatusInternalServerError
	}
	if err != nil {
		v = map[string]string{"error": err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		slog.Debug("the client left before the answer", "error", err)
	}
}
