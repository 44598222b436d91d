// Small parts that all views share.
import { session } from './data.js'

// Okabe and Ito's colours, which people with any colour vision tell apart.
const COLORS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#9a8c00', '#6b6ecf', '#8c6d31', '#7b4173']
const names = [...session.sections]

export function colorOf(name) {
  if (!names.includes(name)) names.push(name)
  return COLORS[names.indexOf(name) % COLORS.length]
}

export const count = number => (number == null ? '–' : Math.round(number).toLocaleString('en-US'))

export function day(text, withTime) {
  if (!text) return ''
  return withTime && text.length > 10 ? `${text.slice(0, 10)} ${text.slice(11, 16)}` : text.slice(0, 10)
}

export const SectionDot = ({ name }) => <i class="dot" style={{ background: colorOf(name) }} />

const MEANINGS = session.reasons

export const Chip = ({ reason, included }) => (
  <span class={`chip ${included ? 'in' : 'out'}`} title={MEANINGS[reason] || reason}>{included ? '' : 'not: '}{reason.replace('_', ' ')}</span>
)
